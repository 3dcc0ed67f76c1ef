"""What hosts keep between visits, by slot.

There is a version for each round: a visit reads what was kept before its round and writes its round's, so the
same visit can be done again, after a crash, to the same numbers. Methods and a coordinator's checkpoints
never see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs


class Slots:
    """Memories [host, ...] of some hosts, which are numbered from 0 here."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._kept: dict[str, dict[int, dict[str, Tensor]]] = {}

    def before(self, slot: str, round: int) -> Beliefs | None:
        """What was kept before that round, if anything was."""
        versions = self._kept.get(slot, {})
        return versions.get(max((r for r in versions if r < round), default=-1))

    def write(self, slot: str, round: int, hosts: Tensor, memory: Beliefs, otherwise: Beliefs) -> None:
        """These hosts' memory after a visit; who was not visited keeps what it had, or `otherwise`."""
        versions = self._kept.setdefault(slot, {})
        if round not in versions:
            start = tree.repeat(otherwise, self._hosts)
            versions[round] = {name: t.clone() for name, t in start.items()}
        for name, t in versions[round].items():
            t.index_copy_(0, hosts.to(t.device), memory[name])

    def drop(self, round: int) -> None:
        """A run can go on from this round or a later one: what only an earlier one would read is dropped."""
        for versions in self._kept.values():
            newest = max((r for r in versions if r <= round), default=-1)
            for r in [r for r in versions if r < newest]:
                del versions[r]

    def rewind(self, round: int) -> None:
        """A run goes on from this round: what came after it is dropped."""
        for versions in self._kept.values():
            for r in [r for r in versions if r > round]:
                del versions[r]

    def tensors(self) -> dict[str, Tensor]:
        """Everything kept, by slot, round and name: slots may have any letters, names too."""
        return {
            f"{quote(slot, safe='')}|{r}|{name}": t
            for slot, versions in self._kept.items()
            for r, memory in versions.items()
            for name, t in memory.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        self._kept = {}
        for key, t in tensors.items():
            slot, r, name = key.split("|", 2)
            self._kept.setdefault(unquote(slot), {}).setdefault(int(r), {})[name] = t.clone()


def told_groups(groups: Sequence[Sequence[int]]) -> str:
    """Groups of sites as text."""
    return ";".join(",".join(map(str, group)) for group in groups)


def groups_of(text: str) -> list[list[int]]:
    """The inverse of `told_groups`."""
    return [[int(i) for i in group.split(",")] for group in text.split(";")]
