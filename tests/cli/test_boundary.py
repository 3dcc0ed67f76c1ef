"""What a person sees of odd input, and of a mistake of ours: the very lines."""

import os

import pytest

import coterie as library
from coterie.cli import flags
from coterie.cli.main import main
from coterie.core.errors import BadInputs, Several
from coterie.runs.jobs import side_by_side
from coterie.storage.paths import given_file, given_folder, given_path

NO_TEXT = " is not text in UTF-8: rename the file, or write another word"
NO_MEMORY = "not enough memory: take a smaller model, fewer clients or fewer rows"
REPORT = "please report it; --debug shows where"
QUICK = ("--data", "diabetes", "--clients", "3", "--rounds", "1")


@pytest.fixture
def lines(coterie, tmp_path):
    """The lines of a command that must end with exit code 2 and leave nothing behind."""

    def said(*words: str) -> list[str]:
        before = sorted(tmp_path.rglob("*"))
        code, _, errors = coterie(*words)
        assert code == 2, errors
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        told = [line for line in errors.splitlines() if not line.startswith("·")]
        assert all(line.startswith("coterie: ") for line in told)
        return [line.removeprefix("coterie: ") for line in told]

    return said


class TestSeveralAtOnce:
    def test_flags(self, lines):
        assert lines(
            "run", "--roundz", "3", "--seed", "x", "--init", "commen", "--sgd.lr", "--adam.lr", "1"
        ) == [
            "unknown option --roundz: did you mean --rounds?",
            "--seed must be a whole number; got 'x'",
            "invalid choice 'commen' for --init: choose one of common, independent",
            "--sgd.lr needs a value",
            "--adam.lr: options for 'adam', which this run does not use: it uses digits, shift, logistic, "
            "fedavg, sgd, auto, in-process",
        ]

    def test_names(self, lines):
        assert lines(
            "run", "--data", "titanik", "--method", "fedavgg", "--fedavgg.sample", "2", "--x", "1"
        ) == [
            "unknown data source 'titanik': did you mean titanic?",
            "unknown method 'fedavgg': did you mean fedavg?",
            "unknown option --x: see coterie run --help",
        ]

    def test_values(self, lines):
        assert lines("run", "--rounds", "0", "--seed", "-1", "--memory", "lots", "--sgd.lr", "0") == [
            "rounds=0 must be at least 1: try 30",
            "memory='lots' must be half or an amount: try 4G",
            "seed=-1 must be at least 0: try 0",
            "lr=0.0 must be above 0 and finite: try 0.1",
        ]

    def test_a_file(self, lines, tmp_path):
        text = "rounds = 'x'\nroundz = 3\nseeds = 1.5\n[fedvg]\nx = 1\n[features]\ny = 1\n"
        (tmp_path / "my.toml").write_text(text)
        told = lines("compare", "--config", "my.toml")
        assert told[0].startswith("unknown option of features 'y': known are")
        assert told[1:] == [
            "unknown table in my.toml 'fedvg': did you mean fedavg?",
            "my.toml: rounds must be a whole number; got 'x'",
            "unknown option of my.toml 'roundz': did you mean rounds?",
            "my.toml: seeds must be a whole number; got 1.5",
        ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "extra"], "unexpected 'extra': options begin with -- (see coterie run --help)"),
        (["run", "--rounds", "1", "2"], "--rounds takes one value; got 2: leave '2' out"),
        (
            ["run", "--fedavg.weighted", "false"],
            "--fedavg.weighted takes no value; got 'false': leave it out, or write --fedavg.no-weighted",
        ),
        (["run", "--fedavg.no-weighted", "x"], "--fedavg.no-weighted takes no value; got 'x': leave it out"),
        (["run", "--features", "0"], "--features takes no value; got '0': leave it out"),
        (["run", "--swag.lr", "1", "--kernel", "swagg"], "unknown kernel 'swagg': did you mean swag?"),
        (["run", "a\udc80b"], r"argument 'a\udc80b'" + NO_TEXT),
        (["report", "a\0b"], r"argument 'a\x00b'" + NO_TEXT),
        (
            ["run", *QUICK, "--out", "a" * 300],
            f"--out '{'a' * 75} ... has a name of 300 bytes: choose one of at most 215",
        ),
        (["run", *QUICK, "--out", "a\nb"], r"--out 'a\nb' has the character '\n': choose a name without it"),
        (["run", *QUICK, "--out", " "], "--out ' ' is empty: give a name"),
        (
            ["tune", *QUICK, "--out", "/dev/null"],
            "cannot write --out '/dev/null': /dev/null is not a folder: choose another place",
        ),
        (
            ["data", "show", "diabetes", "--out", "/dev/null/x"],
            "cannot write --out '/dev/null/x': /dev/null is not a folder: choose another place",
        ),
        (["bench", "--csv", "."], "--csv '.' is a folder: name a file in it"),
        (
            ["bench", "scaling", "--out", "a" * 300],
            f"--out '{'a' * 75} ... has a name of 300 bytes: choose one of at most 215",
        ),
        (["resume", "a" * 300], f"path '{'a' * 75} ... has a name of 300 bytes: choose one of at most 255"),
        (["report", "a" * 300], f"path '{'a' * 75} ... has a name of 300 bytes: choose one of at most 255"),
        (
            ["run", "--plugins", "a" * 300],
            f"plugin '{'a' * 75} ... has a name of 300 bytes: choose one of at most 255",
        ),
        (
            ["reproduce", "grimberg-2020", "--minutes", "nan"],
            "minutes=nan must be at least 0: 0 goes on to the end",
        ),
        (
            ["run", *QUICK, "--model", "mlp", "--mlp.hidden", str(10**12)],
            "model mlp: hidden=(1000000000000,) is too wide: at most 1000000000: try 64",
        ),
        (["run", "--seed", str(2**63)], f"seed={2**63} must lie below 2^63: give a smaller number"),
        (
            ["compare", *QUICK, "--methods", "local", "--seeds", str(10**12)],
            "seeds=1000000000000 must be at most 10000: try 3",
        ),
        (
            ["tune", *QUICK, "--methods", "local", "--trials", str(10**12)],
            "trials=1000000000000 must be at most 10000: try 20",
        ),
        (["compare", *QUICK, "--methods", "local", "--device", "x"], "device='x' "),
        (
            ["run", "--kernel", "swag", "--swag.rank", str(10**12)],
            "rank=1000000000000 must be at most 4096, each a copy of the model: try 20",
        ),
    ],
)
def test_the_very_line(lines, words, said):
    (line,) = lines(*words)
    assert line.startswith(said) if said.endswith(" ") else line == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("methods = 3", "my.toml: methods must be a list; got 3: put it in [ ]"),
        ("plugins = 1", "my.toml: plugins must be a list of texts; got 1"),
        ("a = " + "[" * 5000 + "]" * 5000, "my.toml is not valid TOML: it nests too deeply"),
        ('out = "a\\u0000b"', r"--out 'a\x00b' has the character '\x00': choose a name without it"),
        ("memory = '" + "9" * 400 + "G'", f"memory='{'9' * 75} ... must be half or an amount: try 4G"),
        (f"seed = {2**63}", f"my.toml: seed must lie below 2^63; got {2**63}: give a smaller number"),
    ],
)
def test_files_of_settings(lines, tmp_path, text, said):
    (tmp_path / "my.toml").write_text(text)
    assert lines("compare", "--config", "my.toml") == [said]


def test_a_number_of_thousands_of_digits(lines, tmp_path):
    (tmp_path / "my.toml").write_text("rounds = " + "9" * 5000)
    (line,) = lines("run", "--config", "my.toml")
    assert line.startswith("my.toml is not valid TOML: Exceeds the limit (4300 digits)")


def test_a_file_of_settings_may_begin_with_a_byte_order_mark(lines, tmp_path):
    (tmp_path / "my.toml").write_bytes(b"\xef\xbb\xbfrounds = 0")
    assert lines("run", "--config", "my.toml") == ["rounds=0 must be at least 1: try 30"]


class TestRoom:
    """What has no room is refused before it is made."""

    def test_a_model(self, lines, monkeypatch):
        monkeypatch.setattr("coterie.runs.experiment.free_bytes", lambda: 10**9)
        told = lines("run", *QUICK, "--model", "mlp", "--mlp.hidden", "100000000")
        assert told == [
            "model mlp has 1,200,000,001 weights, for 3 clients 24.0 GB; 1.0 GB are free: "
            "take a smaller model or fewer clients"
        ]

    @pytest.mark.parametrize("command", [["run"], ["compare", "--methods", "local"]])
    def test_epochs(self, lines, monkeypatch, command):
        monkeypatch.setattr("coterie.runs.experiment.free_bytes", lambda: 10**9)
        (line,) = lines(*command, *QUICK, "--sgd.epochs", str(10**12))
        assert line.startswith("epochs=1000000000000 of local work: its batches of one round take ")
        assert line.endswith(" GB; 1.0 GB are free: lower it, and take more rounds")

    def test_a_full_covariance(self, lines):
        words = ("--method", "fl-swag", "--fl-swag.form", "full", "--rounds", "6", "--out", "here")
        told = lines("run", "--data", "digits", *words, "--model", "mlp", "--mlp.hidden", "2000")
        assert told == ["a full covariance of 150010 parameters, at most 4096: use --fl-swag.form low-rank"]


class TestFolders:
    def test_the_folder_one_is_in(self, coterie, tmp_path):
        code, _, said = coterie("run", *QUICK, "--out", ".")
        assert code == 0, said
        assert (tmp_path / "report.html").exists()
        assert os.path.samefile(os.getcwd(), tmp_path)

    def test_a_refusal_in_the_first_round_leaves_no_folder(self, lines, coterie, tmp_path):
        words = ("--data", "digits", "--clients", "3", "--rounds", "1", "--fl-swag.floor", "0")
        said = [
            "client 'client-0': the variance of head.weight[0, 0] is 0, must be above 0: "
            "that weight did not move; give a floor, for instance 1e-6"
        ]
        assert lines("run", *words, "--method", "fl-swag") == said  # nor runs/, which was made for it
        assert lines("run", *words, "--method", "fl-swag", "--out", "a/b") == said
        assert lines("compare", *words, "--methods", "fl-swag", "--out", "a") == said
        (tmp_path / "mine").mkdir()
        assert lines("run", *words, "--method", "fl-swag", "--out", "mine") == said

    def test_folds_of_a_ranking(self, lines):
        (line,) = lines(
            "run", "--data", "digits", "--clients", "3", "--method", "ndoye", "--ndoye.folds", "100000"
        )
        assert "too few to hold out folds=100000 parts of them: lower --ndoye.folds" in line

    def test_who_can_go_on(self, lines, coterie, tmp_path, monkeypatch, client_of):
        monkeypatch.chdir(tmp_path)
        client = client_of([[0.0], [1.0]] * 4, [0, 1] * 4)
        library.train("logistic", [client], "local", rounds=1, out="mine")
        assert lines("run", *QUICK, "--out", "mine") == [
            "output folder mine holds a run: call coterie.train again with out='mine', resume=True "
            "or choose another --out"
        ]
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "thesis.txt").write_text("mine")
        assert lines("compare", *QUICK, "--methods", "local", "--out", "notes") == [
            "output folder notes is not empty: choose another --out"
        ]

    def test_home(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HOME", str(tmp_path))
        assert given_folder("~/x") == tmp_path / "x"
        assert given_path("~") == tmp_path
        assert given_file(str(tmp_path / "a" / "b.csv"), "--csv") == tmp_path / "a" / "b.csv"


class TestMistakesOfOurs:
    """One line and exit code 1; where it came from, with --debug alone."""

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (ZeroDivisionError("by\n0"), 1, f"unexpected ZeroDivisionError: by 0: {REPORT}"),
            (KeyError(), 1, f"unexpected KeyError: {REPORT}"),
            (MemoryError(), 2, NO_MEMORY),
            (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 2, NO_MEMORY),
            (
                OSError(36, "File name too long", "aaa"),
                2,
                "cannot use 'aaa': File name too long: check the path",
            ),
            (Several(["one", "two"]), 2, "one\ncoterie: two"),
        ],
    )
    def test_what_is_said(self, coterie, monkeypatch, error, code, said):
        def broken(*given, **more):
            raise error

        monkeypatch.setattr(flags, "read_settings", broken)
        assert coterie("run") == (code, "", f"coterie: {said}\n")
        found, _, told = coterie("run", "--debug")
        assert found == code
        assert told.startswith("Traceback (most recent call last):")
        assert told.endswith(f"coterie: {said}\n")

    def test_in_a_process_of_its_own(self):
        def work(task, say):
            raise ZeroDivisionError("by 0") if task else BadInputs(["one", "two"])

        with pytest.raises(RuntimeError, match="ZeroDivisionError: by 0") as caught:
            list(side_by_side(1, 1, lambda task, say: work(1, say)))
        assert "Traceback" in caught.value.__notes__[0]
        with pytest.raises(BadInputs) as several:
            list(side_by_side(1, 1, work))
        assert several.value.lines == ("one", "two")


def test_help_is_shown_whatever_else_is_typed(capsys):
    assert main(["run", "--nonsense", "--help"]) == 0
    assert "--rounds" in capsys.readouterr().out
