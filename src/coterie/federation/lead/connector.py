"""The net `federation` by its options: how a run comes to sites on hosts of their own.

Light to import: what the network needs (`coterie[network]`) is loaded when a run uses it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput, Several
from coterie.core.facts import called
from coterie.core.kernel import extent_of, kernel_of, makes, scores
from coterie.core.learner import Learner
from coterie.core.method import Method
from coterie.core.net import NETS, Net
from coterie.models.base import count_parameters
from coterie.nets.ground import Connector, Ground, Rule, begin_of
from coterie.nets.lossy import squeeze_of

if TYPE_CHECKING:
    from coterie.federation.lead.sites import Met
    from coterie.federation.plans.plan import Plan

log = logging.getLogger("coterie")

KIT = "COTERIE_KIT"
USUAL = "federation/people/lead"
# what a run scores models with, by how scores leave a site
SCORED = {"clear": ("calibrate", "tallied"), "noisy": ("noisy", "calibrate"), "none": ()}


@NETS.register("federation")
@dataclass(frozen=True)
class Federation(Connector):
    """Sites on hosts of their own, each with its own rows, reached through `coterie relay`."""

    meets: ClassVar[bool] = True

    kit: str = ""
    """The folder of a lead's kit; by default what COTERIE_KIT says, or federation/people/lead."""
    sites: tuple[str, ...] = ()
    """Who takes part; a site that is not there yet joins when it comes. By default all that are connected."""
    least: int = 2
    """Sites that must be there for a round; with fewer, a run waits."""
    wait: float = 60.0
    """Seconds to wait for sites at the start, and for enough of them later."""
    deadline: float = 600.0
    """Seconds that a site may take for one request; it is then left out of the round."""
    patience: float = 20.0
    """Seconds that a site may be unreachable before a round goes on without it."""
    squeeze: str = "auto"
    """How models cross: none, delta (exact, what has changed), fp16, int8, topk=0.01; auto is exact."""

    def __post_init__(self) -> None:
        if self.squeeze != "auto":
            squeeze_of(self.squeeze)
        if self.least < 1:
            raise BadInput(f"least={self.least} must be at least 1: try 2")
        for name in ("wait", "deadline", "patience"):
            if not 0 <= getattr(self, name) < 1e9:
                raise BadInput(f"{name}={getattr(self, name)} must be seconds of at least 0: try 60")

    def folder(self) -> Path:
        path = Path(self.kit or os.environ.get(KIT) or USUAL)
        if not path.is_dir():
            raise BadInput(
                f"no kit of a lead at {path}: give --federation.kit DIR/people/lead, as coterie federation "
                "init made it"
            )
        return path

    def meet(self, rule: Rule) -> Met:
        """The sites, before a run: who they are, and what they have in common."""
        from coterie.federation.lead.sites import lines_of_kit, meet

        lines = lines_of_kit(str(self.folder()), log.warning)
        return meet(lines, rule, self.sites, self.least, self.wait, log.warning)

    def connect(self, ground: Ground) -> Net:
        from coterie.federation.lead.net import Federated

        met: Met = ground.met
        begin = begin_of(ground, "federation")
        told = {**begin, **self._work(ground, met)}
        learner = Learner(ground.model, ground.roster.task)
        return Federated(met, learner, ground.engine, told, self, log.warning, self._plan(ground, begin))

    def plan(self, method: Method, beliefs: Beliefs, ground: Ground, settings: Any) -> Mapping[str, Any]:
        """Found by playing the run."""
        from coterie.federation.plans.dry_run import plan_by_playing  # which plays an experiment itself

        return plan_by_playing(method, beliefs, ground, settings)

    def _plan(self, ground: Ground, begin: Mapping[str, Any]) -> Plan:
        """What the run will ask of its sites, for them to read and to hold it to."""
        from coterie.federation.plans.plan import Plan
        from coterie.storage.chain import finite

        for kernel in (kernel_of(visit.kernel) for visit in ground.planned["visits"]):
            if not (scores(kernel) or makes(kernel)) and extent_of(kernel, 100) is None:
                raise BadInput(
                    f"kernel {called(kernel)} plans in a way of its own and "
                    "does not say how much it does, which sites want to know: give it extent(samples), as in "
                    "docs/adding-a-method.md"
                )
        return Plan(
            **ground.planned,
            begin=finite(begin),
            parameters=count_parameters(ground.model),
            rounds=ground.rounds,
            sites=len(ground.roster),
            reveals=finite(asdict(ground.reveals)),
            sealed=ground.sealed,
            seconds=self.deadline,
        )

    def _work(self, ground: Ground, met: Met) -> dict[str, Any]:
        """What sites are told of a run before it begins; one that would refuse it is said now."""
        from coterie.federation.policy.keys import objections
        from coterie.federation.policy.rules import policy_from, to_dict, work_for

        assert ground.made is not None
        scored = SCORED[ground.scores]
        if ground.scores == "clear" and met.roster.task != "classification":
            scored = ("calibrate",)
        work = work_for(
            ground.reveals,
            (*ground.kernels, *scored),
            ground.made.name,
            ground.rounds,
            len(met.roster),
            parameters=count_parameters(ground.model),
            deal=met.rule.deal,
            sums=met.sums,
            bounded=ground.bounded,
            clear_scores=ground.scores == "clear",
            sealed=ground.sealed,
        )
        lines = list[str]()
        for name, policy in met.policies.items():
            against = objections(policy_from(policy), work, met.lines.kit.name)
            lines += [f"site {name} would refuse: {line}" for line in against]
        if lines:
            raise Several(lines)
        return {"work": to_dict(work), "sites": met.roster.names}
