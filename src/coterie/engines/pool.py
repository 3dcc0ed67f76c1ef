"""Worker threads, each with one intra-op thread, each running its edges in a tight loop.

For models whose layers are large enough that two small ones side by side beat one after the other, such as
convolutions: PyTorch leaves Python's lock while it computes. An only edge runs by itself with all threads.
"""

from __future__ import annotations

import os
import queue
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from coterie.core import belief as tree
from coterie.core.devices import seeded
from coterie.core.kernel import Reply, Trainer
from coterie.core.learner import Learner
from coterie.core.options import bounded, check_options
from coterie.engines.base import ENGINES, Answers, Engine, Ground, Visit, stacked_replies
from coterie.engines.eager import EagerLearner
from coterie.engines.loop import alone
from coterie.engines.threads import all_threads, one_thread_each
from coterie.kernels.only import trained_by

Names = tuple[str, ...] | None

# each thread needs a module of its own; they last as long as the learner they were made for
_copies: weakref.WeakKeyDictionary[Learner, dict[Names, list[EagerLearner]]] = weakref.WeakKeyDictionary()


@ENGINES.register("pool")
@dataclass(frozen=True)
class Pool(Engine):
    """Worker threads with one intra-op thread each: for convolutions and other large layers."""

    workers: int = bounded(0, "be at least 0", "0 takes one for each core")
    """How many threads; 0 takes one for each core."""

    def __post_init__(self) -> None:
        check_options(self)

    def train(self, net: Ground, kernel: Trainer, visit: Visit) -> Answers:
        pairs = visit.edges.tolist()
        # what draws by itself shares one generator, so such edges go one after the other
        lonely = net.traits(visit.beliefs).draws
        workers = 1 if lonely else min(len(pairs), self.workers or os.cpu_count() or 1)
        learners: queue.SimpleQueue[EagerLearner] = queue.SimpleQueue()
        names = trained_by(kernel)
        made = _copies.setdefault(net.learner, {}).setdefault(names, [])
        while len(made) < workers:
            made.append(EagerLearner(net.learner if names is None else net.learner.only(names)))
        for learner in made[:workers]:
            learners.put(learner)

        def run(edge: int) -> Reply:
            guest, host = pairs[edge]
            mine, learner = visit.keys[edge], learners.get()
            try:
                pack, unpack = learner.layout.pack, learner.layout.unpack
                belief = pack(tree.row(visit.beliefs, guest))
                kept = pack(tree.row(visit.memory, host if kernel.keeps else 0), bare=False)
                beside = {name: pack(b) for name, b in visit.besides(edge).items()}
                data = net.clients[host].train
                apart = seeded(mine.at("module").integer(), net.device) if lonely else nullcontext()
                with apart:
                    reply = alone(kernel, learner, belief, kept, beside, data, mine)
                return Reply(unpack(reply.belief), unpack(reply.memory), reply.numbers)
            finally:
                learners.put(learner)

        edges = range(len(pairs))
        if workers == 1:
            with all_threads():
                return stacked_replies(kernel, [run(edge) for edge in edges])
        with one_thread_each(), ThreadPoolExecutor(workers) as threads:
            return stacked_replies(kernel, list(threads.map(run, edges)))
