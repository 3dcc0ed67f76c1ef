"""The nouns of the contract (`docs/contract.md`), for those who write a method or a kernel.

What else they need, functions above all, comes from the module that has it.
"""

from coterie.core.belief import Belief, Beliefs
from coterie.core.charge import Charge
from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.held import Held
from coterie.core.kernel import Carry, Extent, Part, Plan, Reply, Scorer, Tick, Trainer
from coterie.core.learner import Batch, Learner
from coterie.core.method import Info, Models, Reveals
from coterie.core.net import Net, Replies
from coterie.core.partners import Partners
from coterie.core.roster import Roster
from coterie.core.seeds import Key

__all__ = [
    "Batch",
    "Belief",
    "Beliefs",
    "Carry",
    "Charge",
    "Extent",
    "Groups",
    "Held",
    "Info",
    "Key",
    "Learner",
    "Models",
    "Net",
    "Part",
    "Partners",
    "Plan",
    "Replies",
    "Reply",
    "Reveals",
    "Roster",
    "Scorer",
    "Task",
    "Tick",
    "Trainer",
]
