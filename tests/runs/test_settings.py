"""A run as data: what is resolved, what is written, what is refused."""

import tomllib
from dataclasses import asdict, fields, replace
from typing import Any, get_args

import pytest
import tomli_w

from coterie.core.errors import BadInput, UnknownName
from coterie.core.options import Option, options_of
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES, natural_of
from coterie.kernels import SGD
from coterie.methods import METHODS
from coterie.models import MODELS
from coterie.runs.settings import FACTS, PARTS, Settings, digest, from_table, read_toml


def test_resolved_spells_everything_out():
    settings = Settings(data="digits", options={"sgd": {"lr": 0.5}}).resolved()
    parts = {k: v for k, v in settings.parts().items() if k not in ("engine", "net")}
    assert parts == {
        "data": "digits",
        "split": "shift",
        "model": "logistic",
        "method": "fedavg",
        "kernel": "sgd",
    }
    assert {k: v for k, v in settings.options.items() if k != settings.engine} == {
        "shift": {"distribution": "B", "shares": [], "order": "shuffled"},
        "fedavg": {"weighted": True, "sample": 1.0, "norm": "average"},
        "sgd": {k: v for k, v in asdict(SGD(lr=0.5)).items() if v is not None},
    }


def test_resolving_twice_changes_nothing():
    once = Settings(data="titanic", method="finetune", options={"finetune": {"tune": 3}}).resolved()
    assert once.resolved() == once


def test_a_choice_is_not_overruled_by_what_is_natural():
    settings = Settings(data="mnist", split="iid", model="mlp").resolved()
    assert (settings.split, settings.model) == ("iid", "mlp")
    assert "iid" not in settings.options  # it has none
    assert settings.options["mlp"] == {"hidden": [64], "activation": "relu"}


def test_settings_survive_toml():
    chosen = [{"data": name} for name in SOURCES] + [{"method": name} for name in METHODS]
    for parts in chosen:
        settings = Settings(clients=7, test=0.25, wrap=("absent=0.3",), **parts).resolved()
        assert settings.split != "auto"
        assert (settings.model == "auto") == (natural_of(settings.data).by_task)  # by their task
        again = from_table(tomllib.loads(tomli_w.dumps(settings.table())), "there")
        assert again == settings, parts
        assert digest(again.table()) == digest(settings.table())


@pytest.mark.parametrize("kind", PARTS)
def test_every_part_is_made_from_its_own_table(kind):
    for name, cls in PARTS[kind].items():
        made = replace(Settings(), **{kind: name}).resolved().made(kind)
        assert type(made) is cls
        assert made == cls()


def other(option: Option) -> Any:
    """A value that is not the default."""
    default = option.default
    if choices := [c for c in get_args(option.hint) if isinstance(c, str)]:
        return next(c for c in choices if c != default)
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 1
    if isinstance(default, str):
        return f"{default}-other"
    return 7 if default is None else (*default, "more")


def test_the_digest_tells_all_settings_apart():
    plain = Settings(data="titanic").resolved()
    bound = {
        "wrap": ("absent=0.5",),
        "memory": "4G",
        "budget": ("steps=5",),
    }  # of these, not every value is taken
    others = [replace(plain, **{o.name: bound.get(o.name) or other(o)}) for o in options_of(Settings)]
    for name, table in plain.options.items():
        for o in table:
            changed = {**plain.options, name: {**table, o: "changed"}}
            others.append(replace(plain, options=changed))
    assert len(others) > 30
    digests = {digest(s.table()) for s in [plain, *others]}
    assert len(digests) == 1 + len(others)


def test_the_digest_is_that_of_the_content():
    table = Settings(data="titanic").resolved().table()
    assert digest(dict(reversed(table.items()))) == digest(table)
    assert len(digest(table)) == 16


def test_what_is_none_is_left_out_of_the_table():
    assert {"clients", "deal"}.isdisjoint(Settings().table())
    assert Settings(clients=3).table()["clients"] == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rounds": 0}, "rounds=0 must be at least 1: try 30"),
        ({"evaluate": 0}, "evaluate=0 must be at least 1: try 1"),
        ({"seed": -1}, "seed=-1 must be at least 0: try 0"),
        ({"deal": -1}, "deal=-1 must be at least 0: try 0, or leave it out to deal by the seed"),
        ({"wrap": ("absent=1.5",)}, "absent=1.5 must lie between 0 and 1: try 0.1"),
        ({"wrap": ("absent=nan",)}, "absent=nan must lie between 0 and 1: try 0.1"),
        ({"wrap": ("absent=0.1", "absent:chance=-1")}, "absent=-1.0 must lie between 0 and 1: try 0.1"),
        ({"wrap": ("absent:chance",)}, "wrapper 'absent:chance': 'chance' needs the form option=value"),
        ({"wrap": ("absent=often",)}, "wrapper absent: chance must be a number; got 'often'"),
        ({"wrap": ("counting=3",)}, "wrapper counting has no options; got '3': leave it out"),
    ],
)
def test_values_out_of_bounds(refused, changed, message):
    with refused(BadInput, message):
        Settings(**changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": "titanik"}, "unknown data source 'titanik': did you mean titanic?"),
        ({"method": "fedavgs"}, "unknown method 'fedavgs': did you mean fedavg?"),
        ({"kernel": "adm"}, "unknown kernel 'adm': did you mean adam?"),
        ({"engine": "lopo"}, "unknown engine 'lopo': did you mean loop?"),
        ({"net": "in-proces"}, "unknown net 'in-proces': did you mean in-process?"),
        ({"wrap": ("absnt=0.1",)}, "unknown wrapper 'absnt': did you mean absent?"),
        ({"wrap": ("absent:chanc=1",)}, "unknown option of wrapper absent 'chanc': did you mean chance?"),
        ({"options": {"sgd": {"lrr": 1}}}, "unknown option of kernel sgd 'lrr': did you mean lr?"),
    ],
)
def test_names_nobody_knows(refused, changed, message):
    with refused(UnknownName, message):
        replace(Settings(), **changed).resolved()


def test_options_of_a_part_that_is_not_used(refused):
    used = f"digits, shift, logistic, fedavg, sgd, {Settings().engine}, in-process"
    with refused(BadInput, f"options for 'adam', which this run does not use: it uses {used}"):
        Settings(options={"adam": {"lr": 0.1}}).resolved()


def test_options_of_a_part_that_has_none(refused):
    with refused(BadInput, "split iid has no options; got 'alpha': leave it out"):
        Settings(split="iid", options={"iid": {"alpha": 1}}).resolved()


def test_a_table_nobody_knows(refused):
    with refused(UnknownName, "unknown table in my.toml 'fedvag': did you mean fedavg?"):
        from_table({"fedvag": {}}, "my.toml")
    with refused(UnknownName, "unknown option of my.toml 'round': did you mean rounds?"):
        from_table({"round": 3}, "my.toml")
    with refused(BadInput, "my.toml: rounds must be a whole number; got 3.5"):
        from_table({"rounds": 3.5}, "my.toml")


def test_a_file_that_is_no_settings(refused, tmp_path):
    with refused(BadInput, f"cannot read {tmp_path}: Is a directory: check the path"):
        read_toml(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'data = "caf\xe9"')
    with pytest.raises(BadInput, match=r"latin\.toml is not valid TOML"):
        read_toml(tmp_path / "latin.toml")


def test_settings_from_a_file(tmp_path):
    (tmp_path / "my.toml").write_text(
        'data = "titanic"\nwrap = ["absent=0"]\n[sgd]\nlr = 1\nweight-decay = 0.5\n'
    )
    settings = from_table(read_toml(tmp_path / "my.toml"), "my.toml").resolved()
    assert (settings.data, settings.split, settings.wrap) == ("titanic", "age-strict", ("absent=0",))
    assert (settings.options["sgd"]["lr"], settings.options["sgd"]["weight_decay"]) == (1.0, 0.5)


def test_no_two_flags_have_the_same_name():
    """Options are flags behind a part's name, so names must differ from each other and from settings."""
    names = [name.replace("-", "_") for registry in PARTS.values() for name in registry]
    assert len(names) == len(set(names))
    taken = {f.name for f in fields(Settings)} | {"config", "out", "methods", "seeds", "figures"}
    assert taken.isdisjoint(names)


def test_every_source_has_something_natural():
    for _, source in SOURCES.items():
        assert source.natural.split in SPLITS
        assert source.natural.model in MODELS


def test_setting_names_are_what_a_table_may_hold():
    asked = {"budget": ("steps=5",), "power": 5.0, "forbid": ("sex",), "require": ("chol",)}
    given = Settings(clients=1, deal=1, rows=2, history=1, calibrate="none", targets="raw", **asked)
    silent = {name for name, facts in FACTS.items() if facts.quiet} - {*asked, "calibrate", "targets"}
    assert set(given.table()) == {o.name for o in options_of(Settings)} - silent
