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

from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.devices import seeded
from coterie.core.errors import BadInput
from coterie.core.kernel import Reply, Trainer
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines.base import ENGINES, Answers, InProcess, stacked_replies
from coterie.engines.eager import EagerLearner
from coterie.engines.loop import visit
from coterie.engines.threads import one_thread_each

# each thread needs a module of its own; they last as long as the learner they were made for
_copies: weakref.WeakKeyDictionary[Learner, list[EagerLearner]] = weakref.WeakKeyDictionary()


@ENGINES.register("pool")
@dataclass(frozen=True)
class Pool:
    """Worker threads with one intra-op thread each: for convolutions and other large layers."""

    workers: int = 0
    """How many threads; 0 takes one for each core."""

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise BadInput(f"workers={self.workers} must be at least 0: 0 takes one for each core")

    def train(
        self, net: InProcess, kernel: Trainer, beliefs: Beliefs, edges: Tensor, key: Key, memory: Beliefs
    ) -> Answers:
        pairs = edges.tolist()
        # what draws by itself shares one generator, so such edges go one after the other
        alone = net.traits(beliefs).draws
        workers = 1 if alone else min(len(pairs), self.workers or os.cpu_count() or 1)
        learners: queue.SimpleQueue[EagerLearner] = queue.SimpleQueue()
        for learner in learners_for(net.learner, workers):
            learners.put(learner)

        def run(pair: tuple[int, int]) -> Reply:
            guest, host = pair
            mine, learner = key.at("guest", guest, "host", host), learners.get()
            try:
                belief = learner.layout.pack(tree.row(beliefs, guest))
                kept = learner.layout.pack(tree.row(memory, host if kernel.keeps else 0), bare=False)
                data = net.clients[host].train
                apart = seeded(mine.at("module").integer(), net.device) if alone else nullcontext()
                with apart:
                    reply = visit(kernel, learner, belief, kept, data, mine)
                unpack = learner.layout.unpack
                return Reply(unpack(reply.belief), unpack(reply.memory), reply.numbers)
            finally:
                learners.put(learner)

        if workers == 1:
            return stacked_replies(kernel, [run(pair) for pair in pairs])
        with one_thread_each(), ThreadPoolExecutor(workers) as threads:
            return stacked_replies(kernel, list(threads.map(run, pairs)))


def learners_for(learner: Learner, workers: int) -> list[EagerLearner]:
    made = _copies.setdefault(learner, [])
    while len(made) < workers:
        made.append(EagerLearner(learner))
    return made[:workers]
