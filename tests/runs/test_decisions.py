"""What is decided is checked against the run, kept in lines, and makes the settings of the next run."""

from __future__ import annotations

import json

import pytest

from coterie.core.errors import BadInput, BadRun, lines_of
from coterie.features.judgement.decisions import Decisions, decide, folded, place_of
from coterie.features.judgement.next_run import Around, settings_as_decided
from coterie.runs.builder import prepare
from coterie.runs.folder import Folder
from coterie.runs.loop import run
from coterie.runs.settings import Settings
from coterie.storage import decisions

NAMES = [f"client-{i}" for i in range(4)]
SETTINGS = Settings(data="breast-cancer", clients=4, method="weight-erosion", rounds=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run, and a ranking of the same clients, by the name of the method."""
    home = tmp_path_factory.mktemp("runs")
    options = {"ndoye": {"folds": 2, "passes": 1, "bar": "none"}}
    for settings in (SETTINGS, Settings(**{**vars(SETTINGS), "method": "ndoye", "options": options})):
        experiment = prepare(settings, None)
        folder = Folder.create(home / settings.method, experiment.config, experiment.about)
        run(experiment, folder, settings.method)
        folder.close()
    return home


@pytest.fixture
def folder(finished):
    """The run, of which nothing has been decided."""
    (finished / "weight-erosion" / decisions.FILE).unlink(missing_ok=True)
    return finished / "weight-erosion"


PARTNER = ("partner", {"name": "client-1", "in": False})


def test_a_line_says_who_decided_what_and_when(folder):
    (line,) = decide(folder, "client-0", [PARTNER], by="ann")
    assert json.loads((folder / "decisions.jsonl").read_text()) == line
    assert line | {"time": ""} == {
        "time": "", "by": "ann", "client": "client-0", "kind": "partner", "name": "client-1", "in": False
    }  # fmt: skip
    assert line["time"][:4].isdecimal()
    assert decide(folder, "client-0", [PARTNER])[0]["by"]  # who is logged in


def test_the_last_word_counts_and_each_client_has_its_own(folder):
    decide(folder, "client-0", [PARTNER, ("column", {"name": "mean area", "rule": "forbid"})])
    decide(folder, "client-1", [("circle", {"among": ["client-2"], "approved": True})])
    decide(
        folder,
        "client-0",
        by="ann",
        asked=[
            ("partner", {"name": "client-2", "in": False}),
            ("partner", {"name": "client-1", "in": True}),
            ("column", {"name": "mean area", "rule": "require"}),
            ("column", {"name": "mean texture", "rule": "free"}),
            ("threshold", {"class": "malignant", "at": 0.2}),
            ("threshold", {"class": "malignant", "at": 0.3}),
            ("veto", {"requester": "client-3", "allow": False}),
        ],
    )
    place = place_of(folder)
    found = place.of("client-0")
    assert found == Decisions(
        "client-0",
        left_out=("client-2",),
        taken_in=("client-1",),
        require=("mean area",),
        free=("mean texture",),
        cut=("malignant", 0.3, "ann"),
        vetoed=("client-3",),
    )
    assert found.words() == [
        "client-0 leaves client-2 out",
        "client-0 takes client-1 in",
        "client-0 requires column mean area",
        "client-0 leaves column mean texture free",
        "client-0 says malignant from a probability of 0.3 on",
        "client-0 is in no circle of client-3",
    ]
    assert place.of("client-1").words() == ["client-1 approves a circle of client-2"]
    assert place.of("client-2") == Decisions("client-2")
    assert folded(place.lines(), "client-2").words() == []


@pytest.mark.parametrize(
    ("kind", "told", "said"),
    [
        (
            "partner",
            {"name": "client-0", "in": False},
            "partner 'client-0' is the client itself: name another",
        ),
        ("partner", {"name": "x", "in": False}, "unknown partner 'x'"),
        ("partner", {"name": "client-1", "in": "no"}, "in of a partner must be true or false; got 'no'"),
        ("partner", {"name": "client-1"}, "a partner has name and in; got name"),
        ("column", {"name": "age", "rule": "forbid"}, "unknown column 'age'"),
        ("column", {"name": "mean area", "rule": "drop"}, "unknown rule 'drop'"),
        ("threshold", {"class": "yes", "at": 0.5}, "unknown class 'yes'"),
        ("threshold", {"class": "benign", "at": 1}, "threshold 1 must lie between 0 and 1"),
        ("threshold", {"class": "benign", "at": float("nan")}, "threshold nan must lie between"),
        ("threshold", {"class": "benign", "at": True}, "at of a threshold must be a number; got True"),
        ("circle", {"among": ["x"], "approved": True}, "unknown partner 'x'"),
        ("circle", {"among": ["client-0"], "approved": True}, "is the client itself"),
        ("circle", {"among": ["client-1"], "approved": False}, "a circle is approved, or not decided"),
        ("circle", {"among": [1], "approved": True}, "among of a circle must be a list of names"),
        ("veto", {"requester": "client-0", "allow": False}, "requester 'client-0' is the client itself"),
        ("veto", {"requester": "x", "allow": False}, "unknown requester 'x'"),
        ("again", {"out": "x"}, "unknown kind of decision 'again'"),
    ],
)
def test_mistakes_are_said_and_nothing_is_written(folder, kind, told, said):
    with pytest.raises(BadInput) as caught:
        decide(folder, "client-0", [PARTNER, (kind, told)])
    assert said in str(caught.value)
    assert len(lines_of(caught.value)) == 1
    assert not (folder / "decisions.jsonl").exists()


def test_all_mistakes_at_once(folder):
    with pytest.raises(BadInput) as caught:
        decide(
            folder, "x", [("partner", {"name": "y", "in": True}), ("veto", {"requester": "z", "allow": True})]
        )
    assert [line.partition(":")[0] for line in lines_of(caught.value)] == [
        "unknown client 'x'",
        "unknown partner 'y'",
        "unknown requester 'z'",
    ]


def test_a_published_circle_can_be_made_smaller_and_not_larger(finished):
    folder = finished / "ndoye"
    mine = place_of(folder).circles["client-0"]
    assert len(mine) == 2
    decide(folder, "client-0", [("circle", {"among": list(mine[:1]), "approved": True})])
    (other,) = {*NAMES} - {"client-0", *mine}
    with pytest.raises(BadInput, match=f"'{other}' is not in the circle that was published for client-0"):
        decide(folder, "client-0", [("circle", {"among": [other], "approved": True})])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"kind": "partner"}',
        '{"time": 1, "by": "", "client": "", "kind": ""}',
        '{"time": "today", "by": "", "client": "", "kind": ""}',
    ],
)
def test_a_damaged_file_is_refused_in_a_line(folder, text):
    decide(folder, "client-0", [PARTNER])
    path = folder / "decisions.jsonl"
    path.write_text(path.read_text() + text + "\n")
    for use in (lambda: place_of(folder).of("client-0"), lambda: decide(folder, "client-0", [PARTNER])):
        with pytest.raises(BadRun, match=r"line 2 of .*decisions.jsonl is damaged: mend or delete it"):
            use()


def test_the_last_word_is_the_last_when_clocks_are_set_back(folder):
    times = ("2026-10-25T02:50:00+02:00", "2026-10-25T02:10:00+01:00")  # twenty minutes later
    lines = [
        {"time": time, "by": "ann", "client": "client-0", "kind": "column", "name": "age", "rule": rule}
        for time, rule in zip(times, ("forbid", "free"), strict=True)
    ]
    (folder / "decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert place_of(folder).of("client-0").free == ("age",)


@pytest.mark.parametrize("change", [{"kind": "later"}, {"in": 1}, {"name": None}])
def test_a_line_that_is_no_decision_is_not_passed_over(folder, change):
    (line,) = decide(folder, "client-0", [PARTNER])
    (folder / "decisions.jsonl").write_text(json.dumps(line | change) + "\n")
    with pytest.raises(BadRun, match="is no decision: mend or delete that line"):
        place_of(folder).of("client-0")


def test_a_folder_of_which_nothing_can_be_decided(tmp_path):
    with pytest.raises(BadRun, match="is no run, no comparison and no site's kit"):
        decide(tmp_path, "client-0", [PARTNER])


# the settings of the next run


def line(client, kind, **told):
    return {"time": "", "by": "", "client": client, "kind": kind, **told}


def out(name, client="client-0"):
    return line(client, "partner", **{"name": name, "in": False})


def circle(*among, client="client-0"):
    return line(client, "circle", among=list(among), approved=True)


def veto(owner, requester, allow=False):
    return line(owner, "veto", requester=requester, allow=allow)


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ((), [out("client-3")], ("without:names=client-3",)),
        (("absent=0.1",), [out("client-3")], ("without:names=client-3", "absent=0.1")),
        (
            ("absent=0.1", "without:names=client-2"),
            [out("client-3")],
            ("without:names=client-2+client-3", "absent=0.1"),
        ),
        (
            ("without:names=client-2",),
            [line("client-0", "partner", **{"name": "client-2", "in": True})],
            (),
        ),
        ((), [circle("client-1")], ("circle:of=client-0,among=client-0+client-1",)),
        ((), [circle()], ("circle:of=client-0,among=client-0",)),
        (
            ("circle:of=client-0,among=client-2", "circle:of=client-1,without=client-2"),
            [circle("client-1")],
            ("circle:of=client-0,among=client-0+client-1", "circle:of=client-1,without=client-2"),
        ),
        ((), [veto("client-0", "client-2")], ("circle:of=client-2,without=client-0",)),
        (  # vetoes of others hold as well, and what else they decided does not
            (),
            [veto("client-1", "client-0"), out("client-3", "client-1"), circle("client-1", "client-2")],
            ("circle:of=client-0,among=client-0+client-1+client-2,without=client-1",),
        ),
        (
            ("circle:of=client-2,without=client-0+client-1",),
            [veto("client-0", "client-2", allow=True)],
            ("circle:of=client-2,without=client-1",),
        ),
        (  # all who are left are no circle that keeps anybody out
            (),
            [out("client-3"), circle("client-1", "client-2")],
            ("without:names=client-3",),
        ),
    ],
)
def test_wrappers_of_the_next_run(before, lines, after):
    settings = Settings(**{**vars(SETTINGS), "wrap": before})
    made, words = settings_as_decided(settings, NAMES, lines, "client-0")
    assert made.wrap == after
    assert made == Settings(**{**vars(settings), "wrap": after})
    assert len(words) == len([one for one in lines if one["client"] == "client-0" or one["kind"] == "veto"])


def test_columns_of_the_next_run():
    before = Settings(**{**vars(SETTINGS), "forbid": ("Age", "sex"), "require": ("chol",)})
    rules = {"age": "free", "chol": "forbid", "pulse": "require", "weight": "forbid"}
    lines = [line("client-0", "column", name=name, rule=rule) for name, rule in rules.items()]
    made, _ = settings_as_decided(before, NAMES, lines, "client-0")
    assert (made.forbid, made.require) == (("sex", "chol", "weight"), ("pulse",))


def test_odd_names_are_written_so_that_they_are_read_again():
    names = ["a+b", "c, d", "7", "é"]
    around = Around(out=("a+b",), among={"7": ("c, d", "é")}, apart={"é": ("7",)})
    assert Around.of(around.written()) == Around(("a+b",), {"7": ("c, d", "é")}, {"7": (), "é": ("7",)})
    made, _ = settings_as_decided(
        Settings(**{**vars(SETTINGS), "wrap": around.written()}), names, [veto("c, d", "7")], "é"
    )
    assert Around.of(made.wrap).apart["7"] == ("c, d",)


def test_sites_of_a_federation_are_left_out_by_name():
    options = {"federation": {"sites": tuple(NAMES), "kit": "kit"}}
    wrap = ("circle:of=client-3,among=client-0", "circle:of=client-1,without=client-3+client-2")
    settings = Settings(net="federation", wrap=wrap, options=options)
    made, _ = settings_as_decided(settings, NAMES, [out("client-3")], "client-0")
    assert made.options["federation"] == {"sites": tuple(NAMES[:3]), "kit": "kit"}
    assert made.wrap == ("circle:of=client-1,without=client-2",)
    with pytest.raises(BadInput, match="only client-0 would be left, of at least 2"):
        settings_as_decided(settings, NAMES, [out(name) for name in NAMES[1:]], "client-0")


def test_a_ranking_becomes_a_run_that_trains():
    ranking = Settings(method="ndoye", rounds=1)
    assert settings_as_decided(ranking, NAMES, [circle("client-1")], "client-0")[0].rounds == 30
    assert settings_as_decided(ranking, NAMES, [circle("client-1")], "client-0", 5)[0].rounds == 5
    assert settings_as_decided(ranking, NAMES, [circle(*NAMES[1:])], "client-0")[0].wrap == ()
    look = Settings(method="similar", rounds=1, options={"similar": {"train": False, "best": 1}})
    assert settings_as_decided(look, NAMES, [circle("client-1")], "client-0")[0].options["similar"] == {
        "train": True,
        "best": 1,
    }


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "nothing was decided for client-0 yet: decide first"),
        ([out("client-2", "client-1")], "nothing was decided for client-0 yet"),
        (
            [line("client-0", "threshold", **{"class": "x", "at": 0.5})],
            r"changes no training \(client-0 says x",
        ),
        ([circle(*NAMES[1:])], "changes no training"),
    ],
)
def test_nothing_to_do_again(lines, said):
    with pytest.raises(BadInput, match=said):
        settings_as_decided(SETTINGS, NAMES, lines, "client-0")
