"""A site's policy: read whole, the same before a run as during it, and no message goes unasked."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.errors import BadData, BadInput, Refused, lines_of
from coterie.core.held import handles_in
from coterie.core.kernel import kernel_to_dict as kernel_told
from coterie.core.method import Reveals
from coterie.core.seeds import Key
from coterie.core.wire import unpack
from coterie.federation.policy import rules
from coterie.federation.policy.keys import MAY, Policy, Work
from coterie.federation.policy.pages import write_again
from coterie.federation.policy.rules import check_begin, check_message, read_policy, to_dict
from coterie.federation.site.model_origins import Origins
from coterie.federation.site.session import Session
from coterie.kernels import SGD, Fold

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "contract"))
from table import Here, clients_of, method_of, remote_of, start_of  # noqa: E402

FULL = Work("logistic", 10, ("sgd",), 5, 3, 7, True, False, True, False, False, True)


# the file


def test_without_a_file_the_usual_policy_holds(tmp_path):
    assert read_policy(None) == Policy()
    (tmp_path / "empty.toml").write_text("")
    assert read_policy(tmp_path / "empty.toml") == Policy()


def test_the_example_says_every_key_and_changes_nothing():
    path = ROOT / "deploy" / "policy.toml"
    assert read_policy(path) == Policy()
    lines = [line.removeprefix("#") for line in path.read_text().splitlines() if " = " in line]
    keys = tomllib.loads("\n".join(line for line in lines if line.split(" = ")[0].isidentifier()))
    assert keys.keys() == {f.name for f in dataclasses.fields(Policy)}
    rules.policy_of(keys)


def test_the_page_names_every_key():
    page = (ROOT / "docs" / "federation.md").read_text()
    for f in dataclasses.fields(Policy):
        assert f"| `{f.name}` |" in page, f.name


def test_the_page_and_the_example_are_made_of_the_keys(tmp_path):
    for name in ("docs/federation.md", "deploy/policy.toml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text((ROOT / name).read_text())
    write_again(tmp_path)
    for name in ("docs/federation.md", "deploy/policy.toml"):
        hint = "python -m coterie.federation.policy.pages writes it"
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), hint


def test_everything_wrong_with_a_file_is_said_at_once(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        'max_rouds = 5\nmax_rounds = "ten"\nmax_visits = 0\nrows = 1\nkernels = ["sdg"]\nmodels = "mlp"\n'
        'scores = "none"\nruns_a_day = -1\nopen = true\nto_coordinator = false\nrequesters = [1]\n'
    )
    with pytest.raises(BadInput) as caught:
        read_policy(path)
    lines = lines_of(caught.value)
    assert all(str(path) in line for line in lines)
    said = [line.replace(str(path), "FILE") for line in lines]
    assert said == [
        "unknown option of FILE 'max_rouds': did you mean max_rounds?",
        "FILE: max_rounds must be a whole number; got 'ten'",
        "FILE: rows must be true or false; got 1",
        "FILE: models must be a list of texts; got 'mlp'",
        "unknown value for FILE: scores, 'none': did you mean own?",
        "FILE: requesters must be a list of texts; got [1]",
        "FILE: unknown kernel 'sdg': did you mean sgd?",
        "FILE: max_visits = 0 must be at least 1: try 100000",
        "FILE: runs_a_day = -1 must be at least 0: try 0, or leave it out",
        "FILE: open = true needs to_coordinator = true: change one of them",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory: check the path"),
        (b"max_rounds = ", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"a = " + b"[" * 5000, "is not valid TOML"),
        (b"max_rounds = " + b"9" * 5000, "is not valid TOML"),
    ],
)
def test_a_file_that_is_none(tmp_path, content, said):
    path = tmp_path / "policy.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=said) as caught:
        read_policy(path)
    assert "\n" not in str(caught.value)


def test_a_policy_is_told_and_read_again():
    policy = Policy(("anna",), ("sgd", "score"), (), deal=3, scores="own", max_bytes=5)
    crossed = json.loads(json.dumps(to_dict(policy)))
    assert rules.policy_from(crossed) == policy
    assert rules.policy_from({**crossed, "of a later version": 1, "kernels": ["theirs"]}).kernels == (
        "theirs",
    )
    with pytest.raises(BadData, match="policy: max_bytes must be a whole number; got 'x'"):
        rules.policy_from({**crossed, "max_bytes": "x"})


# a run begins


@pytest.mark.parametrize(
    ("policy", "change", "said"),
    [
        ({}, {}, None),
        ({"requesters": ("lead", "anna")}, {}, None),
        (
            {"requesters": ("anna",)},
            {},
            "requester 'lead' is not in the policy's list (anna): add it to requesters",
        ),
        (
            {"requesters": ()},
            {},
            "requester 'lead' is not in the policy's list (empty): add it to requesters",
        ),
        (
            {"kernels": ("sgd",)},
            {"kernels": ("sgd", "hmc")},
            "kernel 'hmc' is not in the policy's list (sgd): add it to kernels",
        ),
        ({"models": ("mlp",)}, {}, "model 'logistic' is not in the policy's list (mlp): add it to models"),
        (
            {"max_parameters": 9},
            {},
            "10 parameters, above the policy's 9: ask for fewer, or raise max_parameters",
        ),
        ({"max_rounds": 4}, {}, "5 rounds, above the policy's 4: ask for fewer, or raise max_rounds"),
        ({"min_sites": 4}, {}, "3 sites, below the policy's 4: ask more, or lower min_sites"),
        ({}, {"sites": 1}, "1 sites, below the policy's 2: ask more, or lower min_sites"),
        (
            {"deal": 8},
            {},
            "rows held out by seed 7, where the policy has 8: run with --deal 8, or change deal",
        ),
        (
            {"deal": 8},
            {"deal": None},
            "rows held out by seed None, where the policy has 8: run with --deal 8, or change deal",
        ),
        ({"deal": 7}, {}, None),
        ({"to_coordinator": False}, {"coordinator": False}, None),
        ({"to_peers": False}, {"peers": False}, None),
        *(
            (
                {key: False},
                {fact: True},
                f"{MAY[key]}, which the policy rules out: choose another way, or set {key} = true",
            )
            for key, fact in [
                ("to_coordinator", "coordinator"),
                ("open", "opened"),
                ("to_peers", "peers"),
                ("rows", "rows"),
                ("distances", "distances"),
                ("sums", "sums"),
            ]
        ),
    ],
)
def test_a_run_is_refused_before_and_as_it_begins(policy, change, said, refused):
    policy, work = Policy(**policy), dataclasses.replace(FULL, **change)
    numbers = ("loss", "distances") if work.distances else ("loss",)
    reveals = Reveals(work.coordinator, work.opened, work.peers, numbers, work.rows)
    more = {name: getattr(work, name) for name in ("parameters", "deal", "sums")}
    facts = (reveals, work.kernels, work.model, work.rounds, work.sites)
    assert rules.work_for(*facts, **more) == work
    lines = rules.objections(rules.policy_from(to_dict(policy)), rules.work_for(*facts, **more), "lead")
    if said is None:
        assert lines == []
        check_begin(policy, to_dict(work), "lead")
    else:
        assert lines == [said]
        with refused(Refused, said):
            check_begin(policy, to_dict(work), "lead")


def test_all_objections_come_in_one_line_and_days_are_counted(refused):
    check_begin(Policy(runs_a_day=2), to_dict(FULL), "lead", today=1)
    with refused(
        Refused,
        "5 rounds, above the policy's 1: ask for fewer, or raise max_rounds; "
        "2 runs began within 24 hours, all that runs_a_day allows: wait, or raise it",
    ):
        check_begin(Policy(max_rounds=1, runs_a_day=2), to_dict(FULL), "lead", today=2)


@pytest.mark.parametrize("key", [f.name for f in dataclasses.fields(Work)])
def test_a_run_must_say_everything_and_in_the_right_type(key):
    with pytest.raises(Refused, match=f"a run must say {key} before it begins"):
        check_begin(Policy(), {k: v for k, v in to_dict(FULL).items() if k != key}, "lead")
    with pytest.raises(Refused, match=f"a run: {key} must be"):
        check_begin(Policy(), {**to_dict(FULL), key: {"odd": 1}}, "lead")


# messages

VISIT = {
    "do": "visit",
    "kernel": kernel_told(Fold(SGD())),
    "key": {"round": 3},
    "beliefs": [[[1, ["w"]]]],
    "rows": [0, 0],
    "beside": {},
}
MAKES = {**VISIT, "kernel": {"name": "draws"}}
GIVE, LETTER = {"do": "give", "rows": [[[1, ["w"]]]]}, {"do": "letter", "rows": [[[1, ["w"]]]]}
BARRED = {key: f"^{MAY[key]}, which the policy rules out" for key in MAY}
OWN = "a model of another site would be tried"


@pytest.mark.parametrize(
    ("policy", "message", "foreign", "said"),
    [
        ({}, VISIT, (), None),
        ({"kernels": ("fold", "sgd")}, VISIT, (), None),
        ({"kernels": ("fold",)}, VISIT, (), "^kernel 'sgd' is not in the policy's list"),
        ({"kernels": ("sgd",)}, VISIT, (), "^kernel 'fold' is not in the policy's list"),
        ({}, {**VISIT, "kernel": {"name": "sdg"}}, (), "^unknown kernel 'sdg': did you mean sgd"),
        ({}, {**VISIT, "kernel": {"name": "fold", "inner": {}}}, (), "^unknown kernel ''"),
        ({"max_visits": 12}, VISIT, (), None),
        ({"max_visits": 11}, VISIT, (), "^12 models tried here in a run, above the policy's 11"),
        ({"max_rounds": 2}, VISIT, (), "^3 rounds, above the policy's 2"),
        ({"max_bytes": 99}, VISIT, (), "^100 bytes in a message, above the policy's 99"),
        ({}, VISIT, (1,), None),
        ({"scores": "own"}, VISIT, (2,), None),
        ({"scores": "own"}, VISIT, (1,), OWN),
        ({"scores": "own"}, {**VISIT, "beside": {"to": [[[5, ["w"]], [2, ["b"]]]]}}, (2,), OWN),
        ({"scores": "own"}, MAKES, (1,), None),
        ({}, GIVE, (), None),
        ({}, GIVE, (1,), "^a model that came from another site is not given away"),
        ({}, {**GIVE, "why": "open"}, (), BARRED["open"]),
        ({"open": True}, {**GIVE, "why": "open"}, (), None),
        ({"to_coordinator": False}, GIVE, (), BARRED["to_coordinator"]),
        ({"to_coordinator": False}, LETTER, (), BARRED["to_coordinator"]),
        ({"to_coordinator": False}, {**LETTER, "to": "b"}, (), None),
        ({"to_peers": False}, {**LETTER, "to": "b"}, (), BARRED["to_peers"]),
        ({"to_peers": False}, {**LETTER, "to": ""}, (), BARRED["to_peers"]),
        ({}, {"do": "rows"}, (), BARRED["rows"]),
        ({"rows": True}, {"do": "rows"}, (), None),
        ({"models": ("mlp",)}, {"do": "begin", "model": "mlp"}, (), None),
        ({"models": ("mlp",)}, {"do": "begin", "model": "linear"}, (), "^model 'linear' is not in"),
        ({}, {"do": "home", "folder": "/tmp"}, (), "^'home' is nothing that a site can be asked"),
        ({}, {"do": "save", "path": "/tmp/a"}, (), "^'save' is nothing that a site can be asked"),
        ({}, {"do": "__class__"}, (), "is nothing that a site can be asked"),
        ({}, {}, (), "^None is nothing that a site can be asked"),
        ({}, {"do": "visit"}, (), "^a message 'visit' that lacks something"),
        ({}, {**VISIT, "key": {"round": float("inf")}}, (), "lacks something"),
        ({}, {"do": ["visit"]}, (), "lacks something"),
        ({}, {**GIVE, "rows": [1]}, (1,), "lacks something"),
    ],
)
def test_every_message_has_an_answer(policy, message, foreign, said):
    if said is None:
        tried = 2 if message["do"] == "visit" else 0
        assert check_message(Policy(**policy), message, 100, 10, foreign) == 10 + tried
        return
    with pytest.raises(Refused, match=said) as caught:
        check_message(Policy(**policy), message, 100, 10, foreign)
    assert "\n" not in str(caught.value)


def test_whatever_a_site_does_is_known_to_the_policy():
    """A verb that a site learns later is refused until somebody has thought about it here."""
    verbs = {name.removeprefix("do_") for name, _ in inspect.getmembers(Session) if name.startswith("do_")}
    leaves = {"letter", "letters", "give", "rows", "distances", "seal"}
    assert verbs == rules.STAYS | leaves | {"begin", "visit"}


def test_sizes_are_counted_by_the_site(refused):
    rules.check_model(Policy(), "mlp", 100_000_000)
    with refused(
        Refused,
        "100000001 parameters, above the policy's 100000000: ask for fewer, or raise max_parameters",
    ):
        rules.check_model(Policy(), "mlp", 100_000_001)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
verbs = st.sampled_from(["begin", "visit", "letter", "give", "rows", "mix"])
keys = st.sampled_from(["kernel", "key", "beliefs", "rows", "beside", "to", "why", "model", "name"])


@given(verbs, st.dictionaries(keys, anything), st.dictionaries(keys, anything))
def test_strange_messages_are_refused_or_harmless(verb, message, kernel):
    for asked in ({**message, "do": verb}, {**VISIT, "kernel": kernel}, {**VISIT, **message}):
        said = ""
        try:
            check_message(Policy(), asked, 1, foreign={1})
        except Refused as error:
            said = str(error)
        assert len(said.splitlines()) <= 1


# methods


class Guarded(Here):
    """Sites that ask one policy before they do anything."""

    def __init__(self, clients, policy) -> None:
        super().__init__(clients)
        self.policy, self.visits = policy, 0
        self.origins = [Origins("here") for _ in self.sites]
        self.posted = set()

    def ask(self, messages):
        answers = {}
        for site, data in messages.items():
            message, tensors = unpack(data)
            held = self.origins[site]
            self.visits = check_message(self.policy, message, len(data), self.visits, held.whole)
            answers[site] = self.sites[site].answer(data)
            held.mark_made(message, tensors)
            if message["do"] == "take" and data in self.posted:
                held.came("there", {int(name.partition("/")[0]) for name in tensors}, {})
            if message["do"] == "letter":
                self.posted.add(answers[site])
        return answers


def refused_for(row, policy) -> str:
    """What a site says in three rounds of a method; "" if nothing."""
    method, dtype, rounds = method_of(row), torch.float64, 3
    try:
        net = remote_of(Guarded(clients_of(dtype), policy), "dropout", dtype)
        method.check(net.roster, start_of("dropout", dtype).tensors, Key(1, rounds=rounds))
        state = method.init(start_of("dropout", dtype), net)
        for r in range(1, rounds + 1):
            state, _ = method.round(state, net, Key(1).at_round(r, rounds))
            net.keep(handles_in(state), r)
    except Refused as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "policy", [{}, {"to_coordinator": False}, {"to_peers": False}, {"open": True, "rows": True}], ids=str
)
@pytest.mark.parametrize("row", ["local", "fedavg", "guided", "pens", "weight-erosion", "fl-swag", "central"])
def test_what_is_refused_before_a_run_is_what_it_would_be_refused_for(row, policy):
    reveals = method_of(row).reveals()
    lines = rules.objections(Policy(**policy), rules.work_for(reveals, [], "contract-dropout", 3, 5))
    said = refused_for(row, Policy(**policy))
    assert said in [*lines, ""]
    assert bool(said) == bool(lines)


@pytest.mark.parametrize(
    ("row", "policy", "said"),
    [
        ("fedavg", {"scores": "own"}, ""),  # what comes from the lead is for us
        ("d-psgd", {"scores": "own"}, ""),  # models of peers are mixed, and tried by nobody
        ("pens", {"scores": "own"}, OWN),
        ("influence", {"scores": "own"}, OWN),  # others' models lie beside
        ("fl-swag", {"scores": "own"}, ""),  # drawn from others' posteriors, without a look at rows
        ("fedavg", {"max_visits": 15}, ""),  # five clients, three rounds; counted as if they were one site
        ("fedavg", {"max_visits": 14}, "15 models tried here in a run"),
        ("fedavg", {"max_rounds": 2}, "3 rounds"),
        ("fedavg", {"max_bytes": 100}, "bytes in a message"),
        ("fedavg", {"kernels": ("adam",)}, "kernel 'sgd' is not in"),
    ],
)
def test_a_method_meets_a_policy(row, policy, said):
    found = refused_for(row, Policy(**policy))
    assert said in found
    assert bool(said) == bool(found)
