"""Whatever is typed, or stands in a file: it works, or lines say what is wrong; nothing is left behind.

Seeded, and small: tables of forty rows, one round. What runs must end, whatever the numbers are.
"""

from __future__ import annotations

import random
import shutil
import signal
from typing import Any, get_args, get_origin

import pytest
import tomli_w

from coterie.cli import compare
from coterie.cli.main import COMMANDS
from coterie.core.options import options_of
from coterie.features.ranking import command as rank
from coterie.features.tuning import command as tune
from coterie.runs.settings import PARTS, Settings

SECONDS = 60  # after which a command counts as hung
ROWS = random.Random(0)
TABLE = "a,b,c,y\n" + "".join(
    f"{ROWS.randint(0, 9)},{ROWS.gauss():.2f},{ROWS.choice('xyz')},{ROWS.choice(('no', 'yes'))}\n"
    for _ in range(60)
)
SMALL = ("--rounds", "1", "--clients", "2")
ON_TABLE = ("--data", "table", "--table.path", "t.csv", "--table.target", "y", "--split", "iid")
TRAINING = {"demo", "run", "compare", "tune", "rank", "data"}
FIXED = dict.fromkeys(("compare", "tune", "rank"), ("data", "method"))
GIVEN = ("plugins", "device", "rounds", "clients")  # odd ones of these have lines of their own below
SLOW = ("hmc", "processes")  # not odd, but for minutes or with processes of their own
OWN = {
    "compare": (compare.METHODS,),
    "tune": tune.OWN,
    "rank": (rank.BY, rank.REQUESTER),
}
FEW = {"compare": ["--seeds", "1"], "tune": ["--trials", "1", "--folds", "2"]}
ODD_NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "1e-320",
    "0.5",
    str(10**15),
    str(2**63),
    "9" * 5000,
)
ODD_WORDS = (
    "",
    " ",
    "x",
    "None",
    "true",
    "--",
    "-",
    "=",
    "é",
    "a\nb",
    "a\0b",
    "a\udc80b",
    "..",
    "/dev/null",
    "x" * 5000,
)


class Hung(BaseException):
    """Nothing that a command takes for an error of its own."""


@pytest.fixture
def boundary(coterie, tmp_path):
    """Runs a command, and holds what comes of it against what may."""

    def hung(number, frame):
        raise Hung(f"after {SECONDS} seconds")

    def run(*words: str) -> int:
        before = sorted(tmp_path.rglob("*"))
        signal.signal(signal.SIGALRM, hung)
        signal.alarm(SECONDS)
        try:
            code, out, said = coterie(*words)
        finally:
            signal.alarm(0)
        lines = [line for line in said.splitlines() if not line.startswith("·")]
        assert code in (0, 2), said
        assert "Traceback" not in said + out
        if code == 2:
            assert lines
            assert all(line.startswith("coterie: ") for line in lines), said
            kept = "keeps the state after round" in said  # what diverges may be looked at
            assert kept or sorted(tmp_path.rglob("*")) == before, f"left behind by {said}"
        for place in set(tmp_path.iterdir()) - set(before):
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        return code

    (tmp_path / "t.csv").write_text(TABLE)
    return run


def some_value(pick: random.Random) -> str:
    return pick.choice(pick.choice((ODD_NUMBERS, ODD_WORDS)))


def some_values(pick: random.Random) -> list[str]:
    return [some_value(pick) for _ in range(pick.choice((0, 1, 1, 1, 1, 2)))]


def some_parts(pick: random.Random, command: str) -> dict[str, str]:
    """A name for some kinds of part, now and then one that nobody knows."""
    kinds = [kind for kind in PARTS if kind not in FIXED.get(command, ("data",)) and pick.random() < 0.25]
    named = {kind: pick.choice([n for n in PARTS[kind] if n not in SLOW]) for kind in kinds}
    return {kind: name if pick.random() < 0.95 else name + "x" for kind, name in named.items()}


def likely(pick: random.Random, hint: Any) -> list[str]:
    """Values of a flag's own type, the bounds among them."""
    if hint is bool:
        return []
    if choices := [str(c) for c in get_args(hint) if isinstance(c, str)]:
        return [pick.choice(choices)]
    if get_origin(hint) is tuple:
        return [value for _ in range(pick.randint(0, 2)) for value in likely(pick, get_args(hint)[0])]
    if hint in (int, int | None):
        return [pick.choice(("0", "1", "2", "3", str(10**15)))]
    return [pick.choice(("0", "0.1", "0.5", "1", "2", "nan"))] if hint is float else [pick.choice("ay")]


def some_flags(pick: random.Random, command: str) -> list[str]:
    """Real flags: of the settings, of the parts that are named, and now and then of none; odd values among
    likely ones.
    """
    parts = some_parts(pick, command)
    words = [w for kind, name in parts.items() for w in (f"--{kind}", name)]
    used = {name: PARTS[kind][name] for kind, name in parts.items() if name in PARTS[kind]}
    flags = [(f"--{o.name}", o.hint) for o in options_of(Settings) if o.name not in (*PARTS, *GIVEN)]
    flags += [(f"--{name}.{o.name}", o.hint) for name, cls in used.items() for o in options_of(cls)] * 3
    flags += [("--out", str), ("--sgd.lr", float), ("--features", bool), ("--table.missing", str)]
    flags += [(f"--{o.name}", o.hint) for o in OWN.get(command, ())] * 3
    for flag, hint in pick.choices(flags, k=pick.randint(0, 3)):
        flag = flag.replace("_", "-") if pick.random() < 0.9 else flag
        values = likely(pick, hint) if pick.random() < 0.9 else some_values(pick)
        words += [f"{flag}={values[0]}", *values[1:]] if values and pick.random() < 0.2 else [flag, *values]
    if pick.random() < 0.1:
        words += [pick.choice(("--config", "--plugins", "--nonsense", "--adam.lr")), *some_values(pick)]
    return words


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_flags(boundary, seed):
    pick, codes = random.Random(seed), []
    for _ in range(25):
        command = pick.choice(("run", "run", "run", "compare", "tune", "rank", "data"))
        words = [*ON_TABLE, *some_flags(pick, command)]
        if pick.random() < 0.1:
            words.insert(pick.randrange(len(words)), some_value(pick))
        few = FEW.get(command, []) + ([] if command == "rank" else list(SMALL))
        methods = ["--methods", "local"] if command in FEW else []
        figures = ["--figures", "none"] if command == "rank" else []
        start = ["data", "show"] if command == "data" else [command]
        codes.append(boundary(*start, *methods, *words, *figures, *few))
    assert 0 in codes
    assert 2 in codes


@pytest.mark.parametrize("command", sorted({*COMMANDS} - TRAINING))
def test_words_of_other_commands(boundary, command):
    pick = random.Random(command)
    flags = ("--csv", "--figures", "--out", "--minutes", "--seeds", "--repeats", "--workloads", "--prior")
    for _ in range(20):
        words = [some_value(pick) for _ in range(pick.randint(1, 3))]
        words += [pick.choice(flags)] * pick.randint(0, 1) + [some_value(pick)] * pick.randint(0, 1)
        if command == "posterior":
            words.insert(0, pick.choice(("add", "remove", "show", "predict", "x")))
        if command == "table":
            words.insert(0, "inspect")
        boundary(command, *(["nowhere"] if command in ("bench", "reproduce") else []), *words)


NASTY = (
    "methods = 3",
    "methods = [3]",
    "methods = 'local'",
    "plugins = 1",
    "plugins = [1]",
    'plugins = ["a\\u0000b"]',
    'plugins = ["' + "x" * 300 + '"]',
    'out = "a\\u0000b"',
    "a = " + "[" * 5000 + "]" * 5000,
    "[a" + ".a" * 3000 + "]",
    "rounds = " + "9" * 5000,
    "seed = " + "9" * 30,
    "rounds = 1e400",
    "rounds = 2020-01-01",
    "memory = '" + "9" * 400 + "G'",
    "device = 'x'",
    "[sgd.lr]\nx = 1",
    "[[sgd]]\nlr = 1",
    "features = 1",
    "[methods]\nx = 1",
    "by = 3",
    "\ufefftest = 7",
    "\0",
)


@pytest.mark.parametrize("command", ["run", "compare", "tune", "rank"])
def test_nasty_files_of_settings(boundary, tmp_path, command):
    for text in NASTY:
        (tmp_path / "c.toml").write_bytes(text.encode())
        few = FEW.get(command, []) + ([] if command == "rank" else list(SMALL))
        methods = ["--methods", "local"] if command in FEW and "methods" not in text else []
        assert boundary(command, "--config", "c.toml", *ON_TABLE, *methods, *few) == 2, text


def some_table(pick: random.Random) -> dict[str, object]:
    """Known keys with values of any kind, now and then an unknown one."""
    values = (3, -1, 2.5, float("nan"), "x", "", True, [], [1], ["x"], {}, {"x": 1}, {"lr": "fast"}, 2**62)
    keys = [o.name for o in options_of(Settings)] + [
        "sgd",
        "fedavg",
        "features",
        "logistic",
        "iid",
        "x",
        "methods",
    ]
    return {pick.choice(keys): pick.choice(values) for _ in range(pick.randint(1, 4))}


@pytest.mark.parametrize("command", ["run", "compare"])
def test_files_of_settings(boundary, tmp_path, command):
    pick = random.Random(command)
    for _ in range(30):
        whole = tomli_w.dumps(some_table(pick))
        cut = pick.randrange(1, len(whole) + 1) if pick.random() < 0.3 else len(whole)
        (tmp_path / "c.toml").write_text(whole[:cut])
        methods = ["--methods", "local", *FEW["compare"]] if command == "compare" else []
        boundary(command, "--config", "c.toml", *ON_TABLE, *methods, *SMALL)


def mutated(pick: random.Random, text: bytes) -> bytes:
    """A table with some bytes, cells or lines changed, doubled or lost."""
    lines = text.split(b"\n")
    for _ in range(pick.randint(1, 4)):
        at = pick.randrange(len(lines))
        cells = lines[at].split(b",")
        cells[pick.randrange(len(cells))] = pick.choice(
            (
                b"",
                b" ",
                b"NA",
                b"?",
                b'"',
                b"1e400",
                b"-9",
                b"\xff",
                b"\0",
                b"x" * 5000,
                b"9" * 5000,
                b"1,2",
                b"nan",
            )
        )
        lines[at] = b",".join(cells)
        if pick.random() < 0.3:
            lines = pick.choice(
                (lines[: at + 1], [*lines, lines[0]], lines[at:], [lines[at]], lines * 2, [b"", *lines])
            )
    whole = b"\n".join(lines)
    return whole[: pick.randrange(len(whole) + 1)] if pick.random() < 0.2 else whole


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_tables(boundary, tmp_path, seed):
    pick = random.Random(seed)
    for _ in range(20):
        ending = pick.choice(("csv", "csv", "csv", "tsv", "zip", "gz", "xz", "parquet", "xlsx", "txt"))
        file = tmp_path / f"odd.{ending}"
        file.write_bytes(mutated(pick, TABLE.encode()))
        missing = pick.choice(([], ["--table.missing", "median"], ["--table.missing", "drop"]))
        command = pick.choice((["run"], ["data", "show"]))
        words = ["--data", "table", "--table.path", file.name, "--table.target", pick.choice("yyyya")]
        boundary(*command, *words, "--split", "iid", *missing, *SMALL)
        file.unlink()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, by file."""
    from coterie.cli.main import main

    home = tmp_path_factory.mktemp("finished")
    (home / "t.csv").write_text(TABLE)
    words = ["--data", "table", "--table.path", str(home / "t.csv"), *ON_TABLE[4:]]
    assert main(["run", *words, *SMALL, "--out", str(home / "run")]) == 0
    return {p.relative_to(home): p.read_bytes() for p in (home / "run").rglob("*") if p.is_file()}


DAMAGE = (b"", b"[1]\n", b"[" * 100_000, bytes(range(256)), None)


def test_folders_that_are_damaged(coterie, tmp_path, finished):
    """Each file of a run in turn: empty, of another kind, or gone; both commands see each damage of some."""
    names = [name for name in finished if name.name not in (".lock", "report.html")]
    for i, name in enumerate(names):
        for j, damage in enumerate(DAMAGE):
            for place, content in finished.items():
                (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / place).write_bytes(content)
            if damage is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_bytes(damage)
            code, out, said = coterie(("report", "resume")[(i + j) % 2], "run")
            assert code in (0, 2), (name, damage, said)
            assert "Traceback" not in said + out
            shutil.rmtree(tmp_path / "run")
