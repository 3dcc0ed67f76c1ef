"""The settings of a run again, with what was decided of it.

    partners    left out of the run: `without` around a net in this process, or sites of a federation
    columns     forbidden and required
    circle      `circle:of=CLIENT,among=...` around the net
    vetoes      of any client: `circle:of=REQUESTER,without=CLIENT`; they hold whoever starts again

What the run had already stays, unless it was decided otherwise since. A ranking becomes a run that trains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.core.errors import BadInput
from coterie.data.tables.texts import plain
from coterie.features.judgement.decisions import Decisions, folded, joined_names
from coterie.methods import ranks_by
from coterie.nets.ground import read_wrap
from coterie.nets.offers import clients_in as names_in
from coterie.nets.offers import written
from coterie.runs.settings import Settings

Names = tuple[str, ...]
LEAST = 2  # clients of a run


def settings_as_decided(
    settings: Settings,
    clients: Sequence[str],
    lines: Sequence[Mapping[str, Any]],
    client: str,
    rounds: int = 0,
) -> tuple[Settings, list[str]]:
    """Of a run's settings and the decisions (`Place.lines`), if this client starts again: the settings, and
    what was decided in words. `rounds` are those of the new run; 0: as many as before.
    """
    mine, others = folded(lines, client), vetoes_of(lines, client)
    words = [word for one in (mine, *others) for word in one.words()]
    if not words:
        raise BadInput(f"nothing was decided for {client} yet: decide first, with coterie decide")
    around = Around.of(settings.wrap).after(mine, others)
    left = [name for name in clients if name not in around.out]
    if len(left) < LEAST:
        raise BadInput(
            f"only {joined_names(left)} would be left, of at least {LEAST}: leave fewer partners out"
        )
    made = _with_columns(settings, mine)
    if settings.connector.meets:  # whoever is no site of a run is unknown there
        options = {name: dict(table) for name, table in made.options.items()}
        options.setdefault(made.net, {})["sites"] = tuple(left)
        around, made = around.among_sites(left), replace(made, options=options)
    made = _training(replace(made, wrap=around.needed(left).written()), rounds)
    if made == settings:
        said = "; ".join(words)
        raise BadInput(f"what was decided for {client} changes no training ({said}): nothing is done again")
    return made, words


def vetoes_of(lines: Sequence[Mapping[str, Any]], client: str) -> list[Decisions]:
    """What all others said of who may have them in a circle, and nothing else of theirs."""
    owners = dict.fromkeys(str(line["client"]) for line in lines if line["client"] != client)
    found = [folded(lines, owner) for owner in owners]
    return [Decisions(one.client, vetoed=one.vetoed, allowed=one.allowed) for one in found]


@dataclass(frozen=True)
class Around:
    """The wrappers of a run, by what can be decided: who is `out` of it, {client: the only others in its
    circle}, {client: others that are not in it}; the `rest` in their order.
    """

    out: Names = ()
    among: Mapping[str, Names] = field(default_factory=dict)
    apart: Mapping[str, Names] = field(default_factory=dict)
    rest: Names = ()

    @staticmethod
    def of(wraps: Iterable[str]) -> Around:
        out, among, apart, rest = list[str](), dict[str, Names](), dict[str, Names](), list[str]()
        for spec in wraps:
            name, options = read_wrap(spec)
            told = {key: tuple(names_in(str(value))) for key, value in options.items() if value != ""}
            if name == "without":
                out += told["names"]
            elif name == "circle":
                (of,) = told["of"]
                if "among" in told:
                    both = set(told["among"]) & set(among.get(of, told["among"])) - {of}
                    among[of] = tuple(n for n in told["among"] if n in both)
                apart[of] = _joined(apart.get(of, ()), told.get("without", ()))
            else:
                rest.append(spec)
        return Around(tuple(out), among, apart, tuple(rest))

    def after(self, mine: Decisions, others: Sequence[Decisions]) -> Around:
        """With what was decided since."""
        among = dict(self.among) if mine.circle is None else {**self.among, mine.client: mine.circle}
        apart = dict(self.apart)
        for one in (mine, *others):
            for of in (*one.vetoed, *one.allowed):
                apart[of] = tuple(name for name in apart.get(of, ()) if name != one.client)
            for of in one.vetoed:
                apart[of] = _joined(apart[of], (one.client,))
        out = _joined((name for name in self.out if name not in mine.taken_in), mine.left_out)
        return replace(self, out=out, among=among, apart=apart)

    def among_sites(self, sites: Collection[str]) -> Around:
        """Of these sites alone."""

        def kept(names: Mapping[str, Names]) -> dict[str, Names]:
            return {of: tuple(n for n in some if n in sites) for of, some in names.items() if of in sites}

        return replace(self, out=(), among=kept(self.among), apart=kept(self.apart))

    def needed(self, clients: Collection[str]) -> Around:
        """Without circles of all who are left: they keep nobody out."""
        among = {of: some for of, some in self.among.items() if not {*clients} <= {of, *some}}
        return replace(self, among=among)

    def written(self) -> Names:
        """As `--wrap` has it, the innermost first."""
        found = [f"without:names={written(self.out)}"] if self.out else []
        for of in dict.fromkeys((*self.among, *self.apart)):
            told = {"among": (of, *self.among[of])} if of in self.among else {}
            told |= {"without": self.apart[of]} if self.apart.get(of) else {}
            if told:
                who = ",".join(f"{key}={written(names)}" for key, names in told.items())
                found.append(f"circle:of={written([of])},{who}")
        return (*found, *self.rest)


def _joined(first: Iterable[str], then: Iterable[str]) -> Names:
    """Each once, in this order."""
    return tuple(dict.fromkeys((*first, *then)))


def _with_columns(settings: Settings, mine: Decisions) -> Settings:
    """What was forbidden and required before, and since."""
    if not (mine.forbid or mine.require or mine.free):
        return settings
    decided = set(map(plain, (*mine.forbid, *mine.require, *mine.free)))
    forbid, require = (
        _joined((name for name in before if plain(name) not in decided), now)
        for before, now in ((settings.forbid, mine.forbid), (settings.require, mine.require))
    )
    return replace(settings, forbid=forbid, require=require)


def _training(settings: Settings, rounds: int) -> Settings:
    """A ranking of one round trains nothing: as a run it has as many rounds as any."""
    ranks = ranks_by(settings.method) is not None and settings.rounds == 1
    if ranks and settings.method == "similar":  # which may have been asked to measure alone
        options = {**settings.options, "similar": {**settings.options.get("similar", {}), "train": True}}
        settings = replace(settings, options=options)
    return replace(settings, rounds=rounds or (Settings.rounds if ranks else settings.rounds))
