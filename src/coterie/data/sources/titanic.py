"""The Titanic's passengers, prepared as in Grimberg (2020)."""

from __future__ import annotations

import csv
import gzip
import socket
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadData
from coterie.data import downloads
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.sources.base import SOURCES, Natural
from coterie.data.sources.bundled import inside

OPENML, DOWNLOAD = 40945, "16826755"
IN_WHEEL = f"datasets/tests/data/openml/id_{OPENML}/data-v1-dl-{DOWNLOAD}.arff.gz"
CHECKSUM = "sha256:516e961f519876e5f89b339a0364a08dd64160ac3a4d76d5ec62955bfd6d6ce5"
SHAPE, UNKNOWN_AGES = (1309, 14), 263
COLUMNS = (
    "pclass", "survived", "name", "sex", "age", "sibsp", "parch", "ticket", "fare", "cabin", "embarked",
    "boat", "body", "home.dest",
)  # fmt: skip
MADE_OF = (
    ("sex",), ("age",), ("fare",), ("age",), ("sibsp", "parch"), ("embarked",), ("embarked",), ("pclass",),
    ("pclass",),
)  # fmt: skip
UNUSED = ("boat", "body", "cabin", "home.dest", "name", "ticket")
FEATURES = ("male", "age", "fare", "minor", "alone", "port C", "port Q", "class 1", "class 2")
WHOLE, NUMBERS = ("pclass", "survived", "sibsp", "parch"), ("age", "fare", "body")
FULL_AGE = 17

Table = dict[str, Array]  # a passenger a row, columns by name


@SOURCES.register("titanic")
@dataclass(frozen=True)
class Titanic:
    """Who survived the Titanic, told by nine features of a passenger.

    The features of Grimberg (2020), section 5.2: sex, age, fare, minor (aged 16 or less), travelling alone,
    port of embarkation (against Southampton) and class (against the third). Medians, means and deviations
    are those of all 1309 rows, as in the paper, so a client's inputs know a little of everybody's.

    For the 263 passengers of unknown age the text leaves `minor` open. Here they are adults, which agrees
    with the median age of 28 that they are given and with 87 % of the known ages; the paper's program gave
    them 0.2009, the share of unknown ages.
    """

    minor_if_unknown: Literal["adult", "share"] = "adult"
    """What `minor` is where the age is unknown: adult (0), or the share of unknown ages (0.2009)."""

    natural: ClassVar[Natural] = Natural("age-strict", "logistic", table=True)
    about: ClassVar[str] = "1,309 passengers, 9 features, survived or not; age unknown for 263"
    citation: ClassVar[str] = (
        "Harrell, Cason: Titanic dataset. OpenML 40945, 2017; features of Grimberg: Privacy-preserving and "
        "personalized federated machine learning for medical data. EPFL, 2020"
    )
    licence: ClassVar[str] = "public (OpenML)"

    def __post_init__(self) -> None:
        check_choice("minor_if_unknown of titanic", self.minor_if_unknown, ("adult", "share"))

    def load(self) -> Dataset:
        table, origin = read_passengers()
        x, notes = _nine_features(table, self.minor_if_unknown)
        y = table.pop("survived")
        return Dataset(
            name="titanic",
            task="classification",
            train=Arrays(x, y, table),
            features=FEATURES,
            classes=("died", "survived"),
            notes=(origin, *notes),
            citation=self.citation,
            made_of=MADE_OF,
        )

    def fetch(self) -> list[Path]:
        """No file if scikit-learn carries it, else what was fetched from OpenML."""
        read_passengers()
        return [] if _trouble_in_wheel() is None else _openml_files()

    def at_hand(self) -> bool:
        return _trouble_in_wheel() is None or any(DOWNLOAD in str(path) for path in _openml_files())


def read_passengers() -> tuple[Table, str]:
    """All 14 columns of all passengers, and where they come from."""
    trouble = _trouble_in_wheel()
    if trouble is None:
        return _read_arff(inside(IN_WHEEL)), f"OpenML {OPENML}, from scikit-learn's own test data, checked"
    try:
        return _read_openml(), f"OpenML {OPENML}, fetched because scikit-learn's copy {trouble}"
    except Exception as error:  # the network, a damaged answer, or whatever else fetch_openml stumbles over
        home = _openml_home()  # whose folders are made before it is known whether there is something for them
        for place in (*sorted(home.rglob("*"), reverse=True), home):
            with suppress(OSError):
                place.rmdir()
        reason = " ".join(str(error).split())
        raise BadData(
            f"titanic: scikit-learn's copy {trouble}, and OpenML {OPENML} could not be fetched ({reason}): "
            "reinstall scikit-learn, or try again with a network"
        ) from None


def _trouble_in_wheel() -> str | None:
    """Why scikit-learn's copy cannot be used, if so."""
    path = inside(IN_WHEEL)
    if not path.is_file():
        return f"({path.name}) is absent"
    found = downloads.digest(path, "sha256")
    return None if found == CHECKSUM else f"({path.name}) has {found}, not {CHECKSUM}"


def _read_arff(path: Path) -> Table:
    """The table below @data: comma-separated, in double quotes where need be, ? for unknown."""
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    rows = list(csv.reader(text.partition("@data\n")[2].splitlines()))
    known = ([None if cell == "?" else cell for cell in column] for column in zip(*rows, strict=True))
    return _typed(dict(zip(COLUMNS, known, strict=True)))


def _typed(columns: Mapping[str, Iterable[Any]]) -> Table:
    """Whole numbers, numbers with NaN for unknown, and texts with None, as the columns are."""
    kinds = dict.fromkeys(WHOLE, np.int64) | dict.fromkeys(NUMBERS, np.float64)
    return {name: np.array(list(values), dtype=kinds.get(name, object)) for name, values in columns.items()}


def _read_openml() -> Table:
    """The same table from OpenML; scikit-learn checks its sum and keeps it in the data folder."""
    from sklearn.datasets import fetch_openml

    options = {"as_frame": True, "parser": "liac-arff", "n_retries": 1, "delay": 0.1}
    with _timeout(downloads.CONNECT_SECONDS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a retry; if that fails too, the error says it
        frame = fetch_openml(data_id=OPENML, data_home=str(_openml_home()), **options).frame
    if set(frame) != set(COLUMNS) or frame.shape != SHAPE or frame["age"].isna().sum() != UNKNOWN_AGES:
        raise ValueError(
            f"it has {frame.shape[0]} rows and {frame.shape[1]} columns that are not the known ones"
        )
    return _typed({c: frame[c].astype(object).where(frame[c].notna(), None) for c in COLUMNS})


def _nine_features(table: Table, minor_if_unknown: str) -> tuple[Array, tuple[str, ...]]:
    """The inputs [passenger, feature], and every step with its counts and constants."""
    age, fare, port = table["age"], table["fare"], table["embarked"]
    no_age, male = np.isnan(age), table["sex"] == "male"
    minor = (age < FULL_AGE).astype(np.float64)
    alone = table["sibsp"] + table["parch"] == 0
    if minor_if_unknown == "share":
        minor[no_age] = no_age.mean()
        rule = f"{no_age.mean():.4f} for {no_age.sum()} of unknown age, which is their share"
    else:
        rule = f"0 for {no_age.sum()} of unknown age, as the age filled in is {np.nanmedian(age):g}"
    ports = {p: (port == p) for p in ("C", "Q")}
    classes = {c: (table["pclass"] == c) for c in (1, 2)}
    features = [male, _standardise(age), _standardise(fare), minor, alone, *ports.values(), *classes.values()]
    notes = (
        f"columns left out: {', '.join(UNUSED)}",
        f"columns of 0 and 1: male (1 for {male.sum()} of {len(male)}), alone (1 for {alone.sum()} with no "
        f"sibling, spouse, parent or child aboard), minor (1 for {(age < FULL_AGE).sum()} younger than "
        f"{FULL_AGE}, {rule}), port C ({ports['C'].sum()}), port Q ({ports['Q'].sum()}), "
        f"class 1 ({classes[1].sum()}), class 2 ({classes[2].sum()})",
        f"missing values filled: {_filled_note(age, 'age')}, {_filled_note(fare, 'fare')}, embarked "
        f"({sum(p is None for p in port)}, by S)",
        f"columns standardised: {_standardise_note(age, 'age')}, {_standardise_note(fare, 'fare')}",
        f"medians, means and deviations are those of all {len(male)} rows, future test rows included",
    )
    return np.column_stack([np.asarray(c, dtype=np.float32) for c in features]), notes


def _standardise(column: Array) -> Array:
    """(value - mean) / deviation of the known values (n - 1 below); an unknown value is the median."""
    filled = np.where(np.isnan(column), np.nanmedian(column), column)
    scaled: Array = (filled - np.nanmean(column)) / np.nanstd(column, ddof=1)
    return scaled


def _standardise_note(column: Array, name: str) -> str:
    """By the known values alone, those filled in left out."""
    return f"{name} (mean {np.nanmean(column):.4f}, deviation {np.nanstd(column, ddof=1):.4f})"


def _filled_note(column: Array, name: str) -> str:
    return f"{name} ({np.isnan(column).sum()}, by the median {np.nanmedian(column):g})"


def _openml_home() -> Path:
    return downloads.store("titanic")


def _openml_files() -> list[Path]:
    """What scikit-learn has fetched from OpenML: descriptions, and last the table itself."""
    return [path for path in sorted(_openml_home().rglob("*")) if path.is_file()]


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """fetch_openml sets no limit of its own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
