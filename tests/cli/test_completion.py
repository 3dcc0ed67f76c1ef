"""coterie completion: what each command's --help shows is in the script of every shell, by its exact name."""

from __future__ import annotations

import contextlib
import copy
import io
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from coterie.cli import completion
from coterie.cli.main import COMMANDS, load, main
from coterie.core.registry import Registry
from coterie.runs.settings import PARTS

SHELLS = ("bash", "zsh", "fish")
ANYWHERE = {"-v", "--debug", "--recipe", "--features"}  # taken by commands whose options do not list them
OTHER_WAY = {"plan-privacy"}  # takes the settings of a run as well, which its help leaves out


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """Every shell's; all of the same commands, as these take seconds to ask."""
    whole = completion.everything()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completion, "everything", lambda: whole)
        return {shell: printed("completion", shell) for shell in SHELLS}


def printed(*words: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(list(words)) == 0
    return said.getvalue()


def spec_in(script: str) -> completion.Spec:
    """What Python is told at every Tab."""
    code = script[script.index("import base64") : script.index("COMPLETION_SPEC = unpacked(TREE)")]
    assert not set(code) & set('"$\\'), "fish would take it apart"
    names: dict = {}
    exec(code, names)
    return names["unpacked"](names["TREE"])


def paths(spec: completion.Spec, *above: str) -> Iterator[tuple[str, ...]]:
    for name, one in spec["subcommands"].items():
        yield (*above, name)
        yield from paths(one, *above, name)


def node_of(spec: completion.Spec, words: list[str]) -> completion.Spec:
    """The command that these words name."""
    for word in words:
        spec = spec["subcommands"].get(word, spec)
    return spec


def flags_of(node: completion.Spec) -> set[str]:
    return {flag for option in node["options"] for flag in option["flags"]}


def rows_of(text: str) -> set[str]:
    """The flags that the boxes of a help list."""
    found = re.findall(r"^(?:[│|] |  ?)((?:--?[a-zA-Z][\w.-]*(?:, )?)+)", text, re.MULTILINE)
    return {flag for row in found for flag in row.split(", ") if flag}


def missing(spec: completion.Spec, path: tuple[str, ...], text: str) -> set[str]:
    """What a command's help shows, in its boxes, its usage and its examples, and completion does not know."""
    node = spec
    for word in path:
        if word not in node["subcommands"]:
            return {" ".join(path)}
        node = node["subcommands"][word]
    lost = rows_of(text) - flags_of(node)
    for line in re.findall(r"^(?:usage:)? +coterie (.*)", text, re.MULTILINE):
        shown = re.findall(r"(?<!\S)\[?(--[\w.-]+)", line)
        lost |= {f"coterie {line}: {flag}" for flag in {*shown} - flags_of(node_of(spec, line.split()))}
    return lost


@pytest.fixture
def help_of(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "130")

    def ask(*path: str) -> str:
        assert main([*path, "--help"]) == 0
        return capsys.readouterr().out

    return ask


def all_below(name: str) -> list[tuple[str, ...]]:
    return [(name,), *((name, below) for below in load(name).below)]


def test_every_shell_is_told_the_same(scripts):
    specs = [spec_in(script) for script in scripts.values()]
    assert specs[0] == specs[1] == specs[2]
    assert set(specs[0]["subcommands"]) == set(COMMANDS)
    assert set(paths(specs[0])) == {path for name in COMMANDS for path in all_below(name)}
    assert all(len(script) < 2**17 for script in scripts.values()), "more than Linux takes as an argument"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_help_shows(scripts, help_of, name):
    spec = spec_in(scripts["bash"])
    for path in all_below(name):
        text = help_of(*path)
        assert missing(spec, path, text) == set()
        known = {flag for flag in flags_of(node_of(spec, list(path))) if "." not in flag}
        leaf = not load(name).below or len(path) == 2 or name == "site"
        assert ("--help" in rows_of(text)) == leaf
        if leaf and name not in OTHER_WAY:
            assert known - ANYWHERE == {flag for flag in rows_of(text) if "." not in flag} - ANYWHERE


def test_nothing_stands_for_another(scripts, help_of):
    """`advise` is not found in `advised`, nor --seed in --seeds."""
    spec, text = spec_in(scripts["bash"]), help_of("advise")
    without = copy.deepcopy(spec)
    options = without["subcommands"]["advise"]["options"]
    options[:] = [option for option in options if "--seed" not in option["flags"]]
    assert "--seed" in missing(without, ("advise",), text)
    del without["subcommands"]["advise"]
    assert missing(without, ("advise",), text) == {"advise"}
    assert missing(spec, ("advise",), text) == set()


def test_names_of_parts_are_choices(scripts):
    spec = spec_in(scripts["bash"])
    for command, flag, kind in (
        ("run", "--method", "method"),
        ("compare", "--methods", "method"),
        ("check", "--data", "data"),
        ("similar", "--net", "net"),
    ):
        (option,) = [o for o in spec["subcommands"][command]["options"] if flag in o["flags"]]
        registry: Registry = PARTS[kind]
        assert {*option["choices"]} == {"auto", *registry}
    assert {"--sgd.lr", "--finetune.tune", "--shift.distribution"} <= flags_of(spec["subcommands"]["run"])
    assert "--sgd.lr" not in flags_of(spec["subcommands"]["check"])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("advi", ["advise"]),
        ("table ins", ["inspect"]),
        ("site c", ["check", "cancel"]),
        ("site check --de", ["--debug"]),
        ("run --fedp", ["--fedper.weighted", "--fedper.sample", "--fedprox.mu", "--fedprox.sample"]),
        ("check --data heart", ["heart-disease"]),
        ("federation invite ward west --role l", ["lead"]),
    ],
)
def test_bash_offers(scripts, tmp_path, typed, offered):
    (tmp_path / "script").write_text(scripts["bash"])
    words = ["coterie", *typed.split()]
    ask = f"source ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
    found = subprocess.run(
        ["bash", "-c", ask + '_tyro_coterie; printf "%s\\n" "${COMPREPLY[@]}"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert found.stderr == ""
    assert set(offered) <= set(found.stdout.split())
    assert all(line.startswith(words[-1]) for line in found.stdout.split())


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_read_it(scripts, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    read = subprocess.run([shell, "-n"], input=scripts[shell], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_without_the_packages_of_a_federation(monkeypatch):
    """Its commands are left out; a module of ours that is missing is no such thing."""

    def lacking(package: str):
        def loaded(name: str):
            if name == "site":
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)
            return load("completion")

        return loaded

    monkeypatch.setattr(completion, "load", lacking("msgspec.msgpack"))
    assert set(completion.everything()["subcommands"]) == {*COMMANDS} - {"site"}
    monkeypatch.setattr(completion, "load", lacking("coterie.gone"))
    with pytest.raises(ModuleNotFoundError, match=r"coterie\.gone"):
        completion.everything()
