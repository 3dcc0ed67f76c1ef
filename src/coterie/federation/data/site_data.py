"""The rows of one site, and the steps in which they become its client without leaving it.

    holding = SiteData.read(source, "north")   its rows
    holding.hello()                           what it has, for all to see (`messages.py`)
    holding = holding.without(forbid)         without columns that the run forbids
    holding = holding.joined(common)          the same rows, columns and classes in the order of all sites
    holding.deal(...)                         rows set aside for testing; which columns the others lack
    holding.sums(gaps)                        what is needed of its columns to agree on, and no more
    holding.fit(gaps, agreed)                 its client
    holding.facts(), holding.labels()         what a roster says of it

Given the same rows, seed and order of sites, the clients are those of one process that has all rows, to the
last bit (`data/build.py` takes the same steps). Whatever comes from others is checked first.

A recipe for several sites, or several files, is read for the site of that name alone: files of the others
need not be there. A table of a single site is that site's, whatever it is called there. With a recipe that
all sites share, a path says where this site's table is.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core.checks import is_number, is_whole
from coterie.core.client import Client, class_count, counts_of, digest_of
from coterie.core.errors import BadData, BadInput, Refused, UnknownName, naming_flags_of, shown
from coterie.core.seeds import Key
from coterie.data.build import apart_from_split, as_dealt, check_clients, client_of, parted_rows, turned
from coterie.data.dataset import Arrays, Dataset
from coterie.data.forbidden import without
from coterie.data.intake import Array
from coterie.data.partition.base import Split
from coterie.data.partition.silos import Silos, texts_of
from coterie.data.preparation import Column, Preparation, drop_incomplete
from coterie.data.sources.base import Source
from coterie.data.sources.table import TableFile
from coterie.data.tables.recipe import Recipe
from coterie.data.tables.texts import plain
from coterie.data.tabular import Gaps, TabularPrepare, Told
from coterie.federation.data.agreement import differences, joined_lines
from coterie.federation.data.messages import NAMES, Common, Hello, agreed_of, fields, gaps_of
from coterie.nets.site import PARTS
from coterie.sites.folds import deal_folds, first_rows, held_out, refuse_many_folds

if TYPE_CHECKING:
    from coterie.data.tables.read import Table

_DEEPEST = 1  # folds that a fold may lie within
FEWEST = 3  # of one or two values, the mean and the deviation are as good as the values


@dataclass(frozen=True)
class _Share:
    """How a run sets a site's rows aside: the rows of each part, and their places in the site's table, in
    which those of a published test set come last.
    """

    pools: tuple[Arrays, ...]
    places: Mapping[str, Array]
    number: int
    one_class: bool
    lacks: tuple[bool, ...]


class SiteData:
    """One site's rows. The steps of a run follow each other; a new run begins with `joined`."""

    def __init__(
        self, data: Dataset, name: str, cluster: int | None = None, place: int | None = None
    ) -> None:
        self.data, self.name, self.cluster, self.place = data, name, cluster, place
        self.share: _Share | None = None
        self.client: Client | None = None
        self.left: Mapping[str, Array] = {}  # places of its client's rows

    @classmethod
    def read(cls, source: Source, name: str) -> SiteData:
        """A table of the site's own; of a recipe or files for several sites, the rows of that name."""
        if not isinstance(source, TableFile):
            called = f"{getattr(type(source), 'name', type(source).__name__)} is no table of a site's own"
            remedy = "use --data table, or say how it is dealt to sites, --split iid --clients 10"
            raise BadInput(f"{called}: {remedy}")
        own = _OneSite(**{f.name: getattr(source, f.name) for f in dataclasses.fields(source)}, whose=name)
        return cls(apart_from_split(_rows_of_site(own.load(), name), Silos()), name)

    @classmethod
    def dealt(cls, source: Source, split: Split, clients: int | None, seed: int, name: str) -> SiteData:
        """The client of that name in a study, which every site deals alike and takes its own of."""
        key, data = Key(seed).at("data"), apart_from_split(source.load(), split)
        with naming_flags_of(split):
            deal = split.deal(data, data.train, clients, key)
        if name not in deal.names:
            raise UnknownName(f"client of {data.name}", name, deal.names)
        number = deal.names.index(name)
        published = None if data.test is None else split.deal(data, data.test, len(deal.names), key)
        data = as_dealt(data, deal, published)
        mine, test = np.flatnonzero(deal.owner == number), None
        if data.test is not None and published is not None:
            test = turned(data.test.take(np.flatnonzero(published.owner == number)), deal, number)
        data = replace(
            data,
            train=turned(data.train.take(mine), deal, number),
            order=None if data.order is None else data.order[mine],
            test=test,
            one_class=data.one_class or deal.one_class,
            notes=(*data.notes, *deal.notes),
        )
        return cls(data, name, deal.clusters[number] if deal.clusters else None, number)

    @property
    def prepare(self) -> TabularPrepare | None:
        """How its columns become inputs; None for data that is no table."""
        return self.data.prepare if isinstance(self.data.prepare, TabularPrepare) else None

    @property
    def names(self) -> list[str]:
        """Of its columns, in their order."""
        return [] if self.prepare is None else [c.name for c in self.prepare.columns]

    @property
    def common(self) -> Common:
        """What it would have all sites have."""
        data, prepare = self.data, self.prepare
        target = data.recipe.goals if data.recipe is not None else ""
        if prepare is None:
            return Common(data.task, (), data.classes, target, {}, data.train.x.shape[1:])
        rules = {name: getattr(prepare, name) for name in ("missing", "scale", "absent")}
        columns = prepare.columns
        if prepare.scale != "constants":  # which scale nothing
            columns = tuple(replace(c, center=0.0, spread=1.0) for c in columns)
        return Common(data.task, columns, data.classes, target, rules, ())

    @property
    def absent(self) -> frozenset[str]:
        """Columns of which no row has a value."""
        pools = self.data.pools

        def unknown(i: int) -> bool:
            return all(np.isnan(np.asarray(pool.x[:, i], dtype=np.float64)).all() for pool in pools)

        return frozenset(name for i, name in enumerate(self.names) if unknown(i))

    def hello(self) -> dict[str, Any]:
        """What it says of its rows before anything else: no value of any."""
        data = self.data
        rows, patients = sum(map(len, data.pools)), bool(data.together)
        return Hello(self.common, self.absent, rows, patients, digest_of_rows(data), self.place).to_dict()

    def without(self, forbid: Any) -> SiteData:
        """The same rows without inputs of columns that a run forbids, of those that it has."""
        names = fields({"forbid": forbid}, {"forbid": NAMES}, "what a run forbids")["forbid"]
        return SiteData(without(self.data, names), self.name, self.cluster, self.place) if names else self

    def joined(self, told: Mapping[str, Any]) -> SiteData:
        """The same rows, with columns and classes in the order that all have (`Agreement.common`); refused
        where that is not what this site has, or goes by other rules than its own.
        """
        common, data, prepare = Common.of(told), self.data, self.prepare
        if said := differences(self.common, self.absent, common):
            raise BadData(f"site {self.name!r} does not have what is said to be common: {joined_lines(said)}")
        if prepare is not None:
            places, absent = {plain(c.name): i for i, c in enumerate(prepare.columns)}, self.absent
            order, columns = [places[plain(c.name)] for c in common.columns], list[Column]()
            for c, own in zip(common.columns, [prepare.columns[i] for i in order], strict=True):
                mine = c if own.name in absent else replace(own, name=c.name, unit=c.unit)
                if prepare.scale != "constants":  # what is not common stays its own
                    mine = replace(mine, center=own.center, spread=own.spread)
                columns.append(mine)
            prepare = replace(prepare, columns=tuple(columns))
            data = _with_pools(data, [Arrays(p.x[:, order], p.y, p.columns) for p in data.pools])
            data = replace(data, prepare=prepare, features=prepare.features)
        if common.classes != data.classes:
            numbers = np.array([common.classes.index(c) for c in data.classes])
            data = _with_pools(data, [Arrays(p.x, numbers[p.y], p.columns) for p in data.pools])
        if data.recipe is not None:
            recipe, inputs = data.recipe, {plain(r.name): r for r in data.recipe.inputs}
            rules = [replace(inputs[plain(c.name)], name=c.name) for c in common.columns]
            others, classes = [r for r in recipe.rules if r not in recipe.inputs], tuple(common.classes)
            if recipe.classes:
                others = [replace(r, values=classes) if r is recipe.goal else r for r in others]
            data = replace(data, recipe=replace(recipe, rules=(*rules, *others)))
        return SiteData(replace(data, classes=common.classes), self.name, self.cluster, self.place)

    def deal(
        self, test: float, validation: float, deal_seed: int, number: int, one_class: bool = False
    ) -> dict[str, Any]:
        """Sets rows aside, as the site of that number; how many, and which columns its training rows lack."""
        for what, share in (("test", test), ("validation", validation)):
            if not is_number(share) or not 0 <= share < 1:
                raise BadInput(f"{what}={shown(share)} must lie in [0, 1): try 0.2")
        for what, whole in (("deal", deal_seed), ("number", number)):
            if not is_whole(whole) or not 0 <= whole < 2**63:
                raise BadInput(f"{what}={shown(whole)} must be a whole number of at least 0: try 0")
        data, key, whose = self.data, Key(deal_seed).at("data"), f"client {self.name!r}"
        rows, published = np.arange(len(data.train)), data.test is not None
        kept, aside, out = parted_rows(data, rows, published, test, validation, key, number, whose)
        held = data.train.take(out) if data.test is None else data.test
        pools = (data.train.take(kept), data.train.take(aside), held)
        places = {"train": kept, "validation": aside, "test": out}
        if published:
            places["test"] = len(data.train) + np.arange(len(held))
        lacks = () if self.prepare is None else self.prepare.lacks(pools[0], f"{whose}: ")
        self.share, self.client = _Share(pools, places, number, one_class, lacks), None
        return {**dict(zip(PARTS, map(len, pools), strict=True)), "lacks": list(lacks)}

    def sums(self, gaps: Any, fewest: int = FEWEST) -> list[Told]:
        """[column] what the others need to know of it; `gaps` say which columns some or all sites lack.
        Refused where it would be of fewer values than `fewest`.
        """
        share = self._share()
        if self.prepare is None:
            return []
        told = self.prepare.sums(share.pools[0], self._gaps(gaps, share))
        for column, numbers in zip(self.prepare.columns, told, strict=True):
            known = 0 if numbers is None else numbers[0] if column.scaled else sum(numbers)
            if 0 < known < fewest:
                few = f"site {self.name!r}: column {column.name!r} has {known:g} known training value(s)"
                why = f"sums of fewer than {fewest} would tell them"
                raise Refused(f"{few}, and {why}: blank or leave out that column")
        return told

    def fit(self, gaps: Any, agreed: Any, late: bool = False) -> Client:
        """Its client, from its own rows and what all agreed on; one that comes late takes what they have."""
        share, prepare, way = self._share(), self.prepare, self.data.prepare
        if prepare is not None:
            found = self._gaps(gaps, share, late)
            way = prepare.prepared(share.pools[0], found, agreed_of(agreed, prepare, found))
        client = client_of(self.data, self.name, way, share.pools, self.cluster)
        check_clients([client], allow_one_class=share.one_class or self.data.one_class)
        self.client, self.left = client, share.places
        if isinstance(way, Preparation) and way.drops:  # rows with gaps
            pools = [Arrays(pool.x, share.places[p]) for p, pool in zip(PARTS, share.pools, strict=True)]
            left, _ = drop_incomplete(pools, way.parts)
            self.left = {part: pool.y for part, pool in zip(PARTS, left, strict=True)}
        return client

    @property
    def dealt_places(self) -> Mapping[str, Array]:
        """Where the rows of each part are, before any with gaps is left out."""
        return self._share().places

    def summed_places(self, gaps: Any) -> tuple[Array, list[Array]]:
        """Where the training rows are that sums are of, and [column] those that have a value of it."""
        share = self._share()
        if self.prepare is None:
            return share.places["train"], []
        kept = self.prepare.kept_rows(share.pools[0], self._gaps(gaps, share))
        table = np.asarray(share.pools[0].x, dtype=np.float64).reshape(len(share.pools[0].x), -1)[kept]
        places = share.places["train"][kept]
        return places, [places[~np.isnan(column)] for column in table.T]

    def folded(self, fold: Mapping[str, Any] | None) -> tuple[Client, Mapping[str, Array]]:
        """Its client, and where the rows of each part are in the site's table; of a tuning's trial, without a
        fold of its training rows, on which it is tested.
        """
        client, places = self._client(), self.left
        return (client, places) if fold is None else _without_fold(client, places, fold, self._share().number)

    def facts(self) -> dict[str, Any]:
        """What the roster needs of its client: sizes, shape, names of inputs."""
        client = self._client()
        told: dict[str, Any] = {part: len(getattr(client, part)) for part in PARTS}
        told |= {"shape": list(client.train.x.shape[1:]), "outputs": class_count([client])}
        told |= {"features": list(client.features), "cluster": client.cluster}
        return told | {"digest": digest_of(client)}

    def labels(self) -> list[list[int]] | None:
        """Rows of each class, or without and with an event, of each part; None for a regression."""
        counts = counts_of(self._client(), class_count([self._client()]))
        return None if counts is None else [list(part) for part in counts]

    def _share(self) -> _Share:
        if self.share is None:
            raise BadInput(f"site {self.name!r} has set no rows aside yet: deal first")
        return self.share

    def _client(self) -> Client:
        if self.client is None:
            raise BadInput(f"site {self.name!r} has no inputs yet: fit first")
        return self.client

    def _gaps(self, told: Any, share: _Share, late: bool = False) -> Gaps:
        """What sites lack, which this one's own rows must fit."""
        assert self.prepare is not None
        gaps = gaps_of(told, self.prepare)
        each = list(zip(share.lacks, gaps.some.tolist(), gaps.every.tolist(), strict=True))
        if not late and any(every if not mine else not some for mine, some, every in each):
            raise BadData(f"site {self.name!r} lacks other columns than it is told: start the run anew")
        new = [name for name, (mine, some, _) in zip(self.names, each, strict=True) if mine and not some]
        if new and self.prepare.absent != "mask":  # the model has no place for it, unless zeros stand for it
            line = f"site {self.name!r} lacks column {new[0]!r}, which all have that began"
            raise Refused(f"{line}: start the run anew")
        return gaps


def _without_fold(
    client: Client, places: Mapping[str, Array], fold: Mapping[str, Any], number: int, deep: int = _DEEPEST
) -> tuple[Client, Mapping[str, Array]]:
    """As `sites/folds.py` leaves it out in one process; a fold may lie within what another leaves."""
    told: list[Any] = [fold.get(name) for name in ("within", "folds", "fold", "seed")]
    outer, many, which, seed = told
    none = f"fold {shown(dict(fold))} is none: is it of another version?"
    if outer is not None:
        if not isinstance(outer, Mapping) or not deep:
            raise BadInput(none)
        client, places = _without_fold(client, places, outer, number, deep - 1)
    if not all(map(is_whole, (many, which, seed))) or not 0 <= which < many or many < 2 or seed < 0:
        raise BadInput(none)
    first, of = first_rows(client)
    refuse_many_folds(client, many, len(first))
    dealt = deal_folds(client.train.y.numpy()[first], many, Key(seed).at("folds", number).numpy())[of]
    mine, rows = dealt == which, places["train"]
    return held_out(client, dealt, which), {**places, "train": rows[~mine], "test": rows[mine]}


def _with_pools(data: Dataset, pools: Sequence[Arrays]) -> Dataset:
    return replace(data, train=pools[0], test=pools[1] if len(pools) > 1 else None)


def digest_of_rows(data: Dataset) -> str:
    total = hashlib.sha256()
    for pool in data.pools:
        for array in (pool.x, pool.y):
            total.update(repr((array.dtype.str, array.shape)).encode())
            plain_bytes = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
            total.update(plain_bytes)
    return total.hexdigest()[:16]


@dataclass(frozen=True)
class _OneSite(TableFile):
    """A table of which the files of other sites are not looked at."""

    whose: str = ""

    def _given(self) -> Recipe:
        if len(self.paths) != 1:
            return _for_one_site(super()._given(), self.whose, self.recipe)
        own = str(Path(self.paths[0]).absolute())
        return _with_file(TableFile._given(replace(self, path=())), self.whose, own)

    def _found(self) -> tuple[Recipe, Mapping[str, Table]]:
        recipe, read = super()._found()
        return _for_one_site(recipe, self.whose, self._called()), read


def _for_one_site(recipe: Recipe, name: str, where: str) -> Recipe:
    """The recipe with file and columns of that site alone; a single site may be called otherwise."""
    if recipe.sites:
        like = [s for s in recipe.sites if plain(s) == plain(name)] or list(recipe.sites)
        if len(like) > 1:
            raise UnknownName(f"site of {where}", name, recipe.sites)
        return _with_sites(replace(recipe, sites={like[0]: recipe.sites[like[0]]}), like)
    if not recipe.site:
        return _with_file(recipe, name, recipe.file) if recipe.file else recipe
    from coterie.data.tables.apply_recipe import sites_in
    from coterie.data.tables.read import read_table

    here = sites_in(recipe, read_table(Path(recipe.folder) / recipe.file, recipe.encoding()))
    return recipe if here is None else _with_sites(recipe, here)


def _with_file(recipe: Recipe, name: str, file: str) -> Recipe:
    """Read from that file, all of whose rows are the site's."""
    if recipe.site:  # such a table tells itself whose its rows are
        return _for_one_site(replace(recipe, file=file), name, file)
    known = (s for rule in recipe.rules for s in rule.at)
    here = next((s for s in known if plain(s) == plain(name)), name)  # as the recipe's columns call it
    return _with_sites(replace(recipe, sites={here: file}, file=""), [here])


def _with_sites(recipe: Recipe, sites: Collection[str]) -> Recipe:
    """Without what is said of columns at other sites."""
    rules = (replace(r, at={s: h for s, h in r.at.items() if s in sites}) for r in recipe.rules)
    return replace(recipe, rules=tuple(rules))


def _rows_of_site(data: Dataset, name: str) -> Dataset:
    """A site's own rows: all, unless a column says that there are several sites'."""
    columns = data.train.columns or {}
    if not data.silos or data.silos not in columns:
        return data
    whose = texts_of(columns[data.silos])
    sites = sorted({site for site in whose if site is not None})
    like = [site for site in sites if plain(site) == plain(name)] or sites
    if len(like) > 1:
        raise UnknownName(f"site of {data.name}", name, sites)
    rows = np.flatnonzero([site in like for site in whose])
    others = len(whose) - len(rows)
    note = (f"rows of other sites or of none, left out: {others}",) if others else ()
    lines = None if data.lines is None else data.lines[rows]
    return replace(data, train=data.train.take(rows), notes=(*data.notes, *note), lines=lines)
