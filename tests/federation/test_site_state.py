"""A site's state goes on with another kit, name, federation or table: no founder can reset it."""

from __future__ import annotations

import csv
import random
import shutil
import stat
from pathlib import Path

import pytest
from room import Room
from ward import write_tables

from coterie.cli import site as command
from coterie.cli.main import main
from coterie.core.charge import Charge
from coterie.core.errors import BadRun, CoterieError
from coterie.federation.kits.authority import found_federation, invite, revoke
from coterie.federation.kits.kit import read_kit
from coterie.federation.policy.keys import Policy
from coterie.federation.site.budget import SiteBudget
from coterie.federation.site.consent import Consent
from coterie.federation.site.state import open_state
from coterie.privacy.accounting import COARSE, epsilon
from coterie.storage import decisions

pytest.importorskip("dp_accounting")
KERNEL, COST = {"name": "dp", "inner": {"name": "sgd"}}, (Charge(8.0),)
POLICY = Policy(epsilon=epsilon([Charge(8.0, times=3)], 1e-5, COARSE))


class Hospital:
    """A machine with a site's table and, as its founder is at it too, the folder of all kits."""

    def __init__(self, folder: Path, monkeypatch, capsys) -> None:
        self.folder, self.kits, self.capsys = folder, folder / "ward", capsys
        self.root, self.marks = folder / "states", iter(range(1000))
        monkeypatch.setenv("COTERIE_STATE", str(self.root))
        found_federation(self.kits, ("a", "b"))
        self.kit, self.recipe, self.client = self.kits / "sites" / "a", write_tables(folder, ("a", "b")), "a"
        monkeypatch.setattr(command, "serve", lambda kit, holding, policy, state: self.do(state))

    def starts(self, do=lambda state: None, code=0, *words) -> str:
        """The command `coterie site`, which does this instead of waiting to be asked; what it said."""
        self.do = do
        asked = [str(self.kit), "--recipe", str(self.recipe), "--client", self.client, *map(str, words)]
        assert main(["site", *asked]) == code
        told = self.capsys.readouterr()
        return told.err if code else told.out

    def spends(self, visits: int) -> None:
        self.starts(lambda state: self.visited(state, visits))

    def visited(self, state: Path, visits: int) -> None:
        budget = SiteBudget(state, POLICY)
        for _ in range(visits):
            budget.spend("lead", "run", KERNEL, COST, f"visit {next(self.marks)}")

    def refuses(self) -> bool:
        """Whether nothing is left of the budget."""
        return "out of budget" in self.starts(lambda state: self.visited(state, 1), 2)

    def rows(self, change) -> None:
        """The table of a as another has it."""
        path = self.folder / "a.csv"
        with path.open() as file:
            table = change(list(csv.reader(file)))
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(table)


@pytest.fixture
def hospital(tmp_path, monkeypatch, capsys):
    return Hospital(tmp_path, monkeypatch, capsys)


# what a founder may do


def new_kit(h: Hospital, name: str = "a") -> None:
    revoke(h.kits, "a")
    h.kit = invite(h.kits, name).folder


def other_name(h: Hospital) -> None:
    new_kit(h, "zed")


def other_case(h: Hospital) -> None:
    new_kit(h, "A")


def other_federation(h: Hospital) -> None:
    h.kit = found_federation(h.folder / "far" / "clinic", ("zed", "b"))[1].folder


def same_federation_anew(h: Hospital) -> None:
    shutil.rmtree(h.kits)
    found_federation(h.kits, ("a", "b"))


def copied(h: Hospital) -> None:
    h.kit = Path(shutil.copytree(h.kit, h.folder / "elsewhere"))


def copied_as_it_is(h: Hospital) -> None:
    h.kit = Path(shutil.copytree(h.kit, h.folder / "elsewhere", symlinks=True))


def moved(h: Hospital) -> None:
    h.kit = h.kit.rename(h.folder / "elsewhere")


# what becomes of a table


def one_row_more(table):
    return [*table, ["0.111", "0.222", "0.333", "yes"]]


def touched(table):
    return [table[0], [table[1][0] + "9", *table[1][1:]], *table[2:]]


def shuffled(table):
    return [table[0], *random.Random(0).sample(table[1:], len(table) - 1)]


def reordered(table):
    return [[row[2], row[0], row[1], row[3]] for row in table]


def halved(table):
    return table[: len(table) // 2]


def doubled(table):
    return [*table, *table[1:]]


FOUNDERS = [new_kit, other_name, other_case, other_federation, same_federation_anew, copied, copied_as_it_is]
FOUNDERS += [moved]
TABLES = [one_row_more, touched, shuffled, reordered, halved, doubled]


@pytest.mark.parametrize("trick", FOUNDERS)
def test_what_was_spent_is_spent_with_any_other_kit(hospital, trick):
    hospital.spends(3)
    trick(hospital)
    assert hospital.refuses()


@pytest.mark.parametrize("change", TABLES)
def test_a_table_that_changes_a_little_is_the_same(hospital, change):
    """In another federation, under another name, from another folder."""
    hospital.spends(3)
    other_federation(hospital)
    new = hospital.folder / "new"
    new.mkdir()
    for name in ("a.csv", "b.csv", "recipe.toml"):
        hospital.folder.joinpath(name).rename(new / name)
    hospital.folder, hospital.recipe = new, new / "recipe.toml"
    hospital.rows(change)
    assert hospital.refuses()


def test_other_rows_under_the_same_name_change_nothing(hospital):
    hospital.spends(3)
    new_kit(hospital)
    hospital.folder.joinpath("a.csv").unlink()
    (hospital.folder / "new").mkdir()
    hospital.recipe = write_tables(hospital.folder / "new", ("x", "y", "a", "b"))
    assert hospital.refuses()


def test_a_recipe_that_a_founder_wrote_anew_changes_nothing(hospital):
    """Other columns, under another name, in another federation: it is still that file."""
    hospital.spends(3)
    other_federation(hospital)
    text = hospital.recipe.read_text()
    hospital.recipe.write_text(
        text.replace('[columns.age]\nuse = "number"', '[columns.age]\nuse = "leave-out"')
    )
    assert hospital.recipe.read_text() != text
    assert hospital.refuses()


def test_a_bit_of_the_budget_is_what_is_left(hospital):
    hospital.spends(2)
    new_kit(hospital)
    hospital.spends(1)
    assert hospital.refuses()


def test_other_rows_of_another_site_have_a_budget_of_their_own(hospital):
    hospital.spends(3)
    hospital.kit, hospital.client = hospital.kits / "sites" / "b", "b"
    hospital.spends(3)
    assert hospital.refuses()


def test_two_names_of_the_same_rows_at_once_spend_one_budget(hospital):
    def at_a(first):
        budget = SiteBudget(first, POLICY)

        def at_zed(second):
            other = SiteBudget(second, POLICY)
            for i, one in enumerate((budget, other, budget)):
                one.spend("lead", "run", KERNEL, COST, str(i))
            for i, one in enumerate((budget, other)):
                with pytest.raises(BadRun, match="out of budget"):
                    one.spend("lead", "run", KERNEL, COST, f"more {i}")

        other_federation(hospital)
        hospital.starts(at_zed)

    hospital.starts(at_a)


@pytest.fixture
def answers():
    return list[str]()


def test_a_no_holds_with_a_new_kit_and_under_another_name(hospital, answers):
    hospital.starts(
        lambda state: decisions.add(state, "a", "veto", {"requester": "b", "allow": False}, "ann")
    )
    for trick in (new_kit, other_federation):
        trick(hospital)
        hospital.starts(lambda state: answers.append(Consent(state, "a").objection("b")))
    assert [answer.startswith("a person at a said no (ann") for answer in answers] == [True, True]


def test_a_yes_is_said_for_one_name_alone(hospital, answers):
    def asks(state):
        answers.append(Consent(state, "a", "ask").objection("b"))

    assert main(["decide", str(hospital.kit), "--allow", "b", "--by", "ann"]) == 0
    hospital.starts(asks)
    new_kit(hospital)
    hospital.starts(asks)
    other_federation(hospital)
    hospital.starts(asks)
    assert [bool(answer) for answer in answers] == [False, False, True]


def test_a_person_decides_by_a_new_kit_before_it_was_started(hospital, answers):
    hospital.starts()
    new_kit(hospital)
    assert main(["decide", str(hospital.kit), "--refuse", "b", "--by", "ann"]) == 0
    assert not (hospital.kit / "state").exists()
    hospital.starts(lambda state: answers.append(Consent(state, "a").objection("b")))
    assert answers.pop().startswith("a person at a said no (ann")


@pytest.mark.parametrize(
    ("policy", "says"),
    [(Policy(runs_a_day=1), "1 runs began within 24 hours"), (Policy(deals_a_day=1), "deals_a_day")],
)
@pytest.mark.parametrize("name", ["a", "zed"])
def test_days_counts_go_on_with_a_new_kit(tmp_path, monkeypatch, policy, says, name):
    """Real runs: the first is taken, the second one, after revoke and invite, is not."""
    room = Room(tmp_path, {"a": policy}, names=("a", "b", "c"), rows=40)

    def start(kit):
        with open_state(kit, room.stations["a"].holding.data, str(tmp_path / "root"), print) as state:
            room.states["a"], room.kits["a"] = state, kit
            room.open("a")

    start(room.kits["a"])
    first = room.play(monkeypatch, rounds=1)
    assert not first.metrics[1].get("away")
    revoke(tmp_path / "kits", "a")
    start(invite(tmp_path / "kits", name))
    room.boots["a"] = 2
    try:
        why = room.play(monkeypatch, rounds=1, seed=1, deal=7).metrics[1]["away"]["a"]
    except CoterieError as error:  # before it began
        why = str(error)
    assert says in why


# what earlier versions kept


def kept_in_the_kit(h: Hospital) -> None:
    """As a version did that kept state in the kit."""
    (h.kit / "state").mkdir()
    h.visited(h.kit / "state", 3)
    decisions.add(h.kit / "state", "a", "veto", {"requester": "b", "allow": False}, "ann")


@pytest.mark.parametrize("trick", [lambda h: None, new_kit, copied, moved])
def test_what_a_kit_kept_is_taken_over_and_that_is_said(hospital, answers, trick):
    kept_in_the_kit(hospital)
    trick(hospital)
    said = hospital.starts(lambda state: answers.append(Consent(state, "a").objection("b")))
    assert "state is taken over: from now on it is in " in said
    assert "begins anew" not in said
    assert answers.pop().startswith("a person at a said no")
    assert hospital.refuses()
    assert "taken over" not in hospital.starts()


def test_noise_never_comes_from_a_secret_that_a_kit_brings(hospital):
    """Whoever hands out a kit may have put one into it."""
    (hospital.kit / "state").mkdir()
    (hospital.kit / "state" / "noise.key").write_bytes(b"k" * 32)
    secrets = list[bytes]()
    for _ in range(2):
        hospital.starts(lambda state: secrets.append(SiteBudget(state, POLICY).secret))
    assert secrets[0] == secrets[1] != b"k" * 32


def test_what_a_kit_kept_beside_the_sites_own_counts_too(hospital):
    hospital.starts()
    new_kit(hospital)
    kept_in_the_kit(hospital)
    said = hospital.starts()
    assert "is taken over: from now on it is in" in said
    assert "counts here too" in said
    assert hospital.refuses()


def test_a_folder_that_state_named_before_is_taken_over(hospital):
    hospital.root.mkdir()
    hospital.visited(hospital.root, 3)
    assert f"{hospital.root} is taken over" in hospital.starts()
    assert hospital.refuses()


# where it is


def test_it_is_its_owners_and_the_kit_leads_there(hospital):
    states = list[Path]()
    said = hospital.starts(states.append)
    assert "nothing is kept of site a of ward yet" in said
    assert "begins anew" in said
    hospital.visited(states[0], 1)
    assert states[0].is_relative_to(hospital.root)
    assert (hospital.kit / "state").resolve() == states[0]
    for path in (hospital.root, *hospital.root.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    again = hospital.starts()
    assert "is in force" in again
    assert "begins anew" not in again


def test_a_person_begins_anew_by_removing_the_folder_that_is_named(hospital):
    states = list[Path]()
    hospital.starts(states.append)
    hospital.visited(states[0], 3)
    shutil.rmtree(states[0])
    assert "begins anew" in hospital.starts()
    hospital.spends(3)


def test_the_same_site_runs_once(hospital):
    def twice(state):
        copied_as_it_is(hospital)
        told = hospital.starts(code=2)
        assert told.count("\n") == 1
        assert "is in use: another coterie site runs with it: end that first" in told

    hospital.starts(twice)


def test_a_root_in_a_kit_is_refused(hospital):
    told = hospital.starts(lambda state: None, 2, "--state", hospital.kit / "mine")
    assert "lies in the kit" in told
    assert told.count("\n") == 1
    assert not (hospital.kit / "mine").exists()


def test_state_below_another_root_counts_as_well(hospital, answers):
    hospital.spends(2)
    mine, other = (hospital.kit / "state").resolve(), ("--state", hospital.folder / "other")
    said = hospital.starts(lambda state: hospital.visited(state, 1), 0, *other)
    assert f"what was spent, refused or counted in {mine} counts here too" in said
    assert (hospital.kit / "state").resolve() == mine
    assert "out of budget" in hospital.starts(lambda state: hospital.visited(state, 1), 2, *other)
    assert hospital.refuses()
    hospital.starts(lambda state: answers.append(state), 0, "--state", hospital.kit / "state")
    assert answers == [mine]  # the site's own folder stands for its root


def test_a_federations_name_leads_nowhere_else(hospital):
    """Whoever makes an authority chooses its name."""
    from coterie.federation.site.state_folders import home_in

    kit = read_kit(hospital.kit).folder
    toml = (kit / "kit.toml").read_text()
    (kit / "kit.toml").write_text(toml.replace('"ward"', '"../../../tmp/x"'))
    home = home_in(hospital.root, kit)
    assert home.parent.parent == hospital.root
    assert home.resolve().is_relative_to(hospital.root)
