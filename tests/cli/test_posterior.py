"""coterie posterior: sums and scores by hand, and refusals in one line that leave the pool as it was."""

from __future__ import annotations

import csv
import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

import coterie as package
from coterie.core.belief import belief_of, repeat, row
from coterie.core.held import hold
from coterie.core.net import to_own
from coterie.core.seeds import Key
from coterie.data.preparation import Column, Part, Preparation
from coterie.features.posteriors.command import KINDS, score_table, scores
from coterie.kernels import SWAG, Gather
from coterie.kernels.posterior import collected
from coterie.models import MODELS
from coterie.posteriors import (
    Saved,
    diagonal,
    from_collected,
    isotropic,
    joint,
    low_rank,
    mean,
    product,
    sample,
    variances,
    write,
)
from coterie.posteriors.pools import join, read_pool, with_prior, write_pool
from coterie.runs.builder import prepare
from coterie.runs.folder import read_record
from coterie.runs.settings import from_table
from coterie.show.numbers import figure
from coterie.use.pool import pooled

LOGISTIC = {"name": "logistic", "options": {}, "shape": [1], "outputs": 2}
DOCS = Path(__file__).parents[2] / "docs"


def line(slope, variance, columns=()):
    """Logits (a x, -a x): the mean of a is `slope`; `columns` are deviations of low rank."""
    mu = {"head.weight": torch.tensor([[slope], [-slope]]), "head.bias": torch.zeros(2)}
    var = {name: torch.full_like(t, variance) for name, t in mu.items()}
    if not columns:
        return diagonal(mu, var)
    return low_rank(
        mu, var, {name: torch.stack([c * torch.ones_like(t) for c in columns]) for name, t in mu.items()}
    )


def save(name, posterior, rows=10, model=LOGISTIC, file=None, features=("dose",), classes=("0", "1"), **more):
    saved = Saved(name, rows, posterior, model, features=features, classes=classes, **more)
    write(Path(file or f"{name}.safetensors"), saved)


@pytest.fixture
def done(coterie):
    """Runs `coterie posterior ...`, which must succeed; returns the lines it printed."""

    def run(*words: str) -> list[str]:
        code, printed, said = coterie("posterior", *words)
        assert code == 0, said
        return printed.splitlines()

    return run


@pytest.fixture
def pool(done):
    """north N(0, 1) of 100 rows and south N(3, 1/2) of 20: together 2 and 1/3."""
    save("north", line(0.0, 1.0), 100)
    save("south", line(3.0, 0.5), 20)
    done("add", "pool", "north.safetensors", "south.safetensors")
    return Path("pool")


@pytest.fixture
def kept(refused):
    """A refusal in exactly these words, after which all files are as they were."""

    def run(words, said):
        before = {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()}
        assert refused("posterior", *words) == f"coterie: {said}"
        assert {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()} == before

    return run


def rows_of(file: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(file).read_text().splitlines()))


def slope(path: Path) -> float:
    return mean(joint(read_pool(path).pool))["head.weight"][0].item()


class TestComingAndGoing:
    def test_add_is_the_product(self, pool, done):
        found = joint(read_pool(pool).pool)
        assert mean(found)["head.weight"].flatten().tolist() == pytest.approx([2, -2])
        assert variances(found)["head.weight"].flatten().tolist() == pytest.approx([1 / 3, 1 / 3])
        save("west", line(-7.0, 1.0), 5)
        assert done("add", "pool", "west.safetensors") == ["added: west", "pool: pool, 3 clients, 125 rows"]
        assert slope(pool) == pytest.approx(-1 / 4)  # (0 + 6 - 7) / (1 + 2 + 1)

    def test_remove_after_add_restores(self, pool, done):
        before = read_pool(pool)
        save("west", line(-7.0, 0.1, columns=(1.0, 2.0, 0.5)))
        done("add", "pool", "west.safetensors")
        assert done("remove", "pool", "west") == ["removed: west", "pool: pool, 2 clients, 120 rows"]
        after = read_pool(pool)
        a, b = joint(before.pool), joint(after.pool)
        torch.testing.assert_close(b.shift, a.shift, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(b.precision.diagonal, a.precision.diagonal, rtol=1e-10, atol=1e-10)
        assert b.form == "diagonal"
        for name, saved in before.members.items():
            assert torch.equal(after.members[name].posterior.shift, saved.posterior.shift)
            diagonals = [m.members[name].posterior.precision.diagonal for m in (after, before)]
            assert torch.equal(*diagonals)

    def test_update_replaces_one_and_adds_the_others(self, pool, done):
        save("south", line(6.0, 1.0), 30, file="newer")
        save("west", line(3.0, 1.0), 5)
        said = done("add", "pool", "newer", "west.safetensors", "--update")
        assert said == ["added: west", "updated: south", "pool: pool, 3 clients, 135 rows"]
        assert slope(pool) == pytest.approx(3)  # (0 + 6 + 3) / 3

    def test_a_prior_is_counted_once(self, pool, done):
        """Precisions 1 + 2 less one prior of 1/2; shifts 0 + 6."""
        done("add", "with", "north.safetensors", "south.safetensors", "--prior", "0.5")
        found = joint(read_pool(Path("with")).pool)
        assert variances(found)["head.bias"].tolist() == pytest.approx([1 / 2.5] * 2)
        assert slope(Path("with")) == pytest.approx(6 / 2.5)

    def test_a_folder_of_a_run(self, done):
        for name in ("b", "a"):
            save(name, line(1.0, 1.0), file=f"runs/one/posteriors/{name}.safetensors")
        Path("runs/one/posteriors/notes.txt").write_text("mine")
        assert done("add", "new/pool", "runs/one")[0] == "added: a, b"


class TestShow:
    def test_by_hand(self, pool, done):
        """Spreads 1 and 1/√2, together 1/√3: 0.577 of the one, 0.816 of the other."""
        lines = [text.split() for text in done("show", "pool")]
        assert (
            " ".join(lines[1]) == "pool: 2 clients, 120 rows, 4 parameters (logistic, inputs [1], outputs 2)"
        )
        assert lines[2] == ["client", "rows", "form", "spread", "joint", "/", "own"]
        assert lines[3] == ["north", "100", "diagonal", "1.000", "0.577"]
        assert lines[4] == ["south", "20", "diagonal", "0.707", "0.816"]
        assert lines[5] == ["joint", "diagonal", "0.577"]

    def test_a_prior_and_a_client_that_is_called_oddly(self, done):
        save("[red]n", line(0.0, 1.0, columns=(1.0, -1.0)), file="n")
        done("add", "pool", "n", "--prior", "0.25")
        lines = [text.split() for text in done("show", "pool")]
        assert lines[3][:3] == ["[red]n", "10", "low-rank"]
        assert lines[4] == ["prior", "diagonal", "2.000"]


def probability(a, x):
    """p(class 0) of logits (a x, -a x)."""
    return 1 / (1 + math.exp(-2 * a * x))


class TestPredictCsv:
    def rows(self, text):
        return list(csv.DictReader(text))

    def test_the_mean_by_hand(self, pool, done):
        Path("x.csv").write_text("remark,dose\nx,0.5\ny,-0.25\n")
        rows = self.rows(done("predict", "pool", "x.csv", "--samples", "0"))
        assert [list(r) for r in rows] == [["line", "class", "p(0)", "p(1)", "trust"]] * 2
        for r, (i, x, guess) in zip(rows, [("2", 0.5, "0"), ("3", -0.25, "1")], strict=True):
            assert (r["line"], r["class"]) == (i, guess)
            assert float(r["p(0)"]) == pytest.approx(probability(2, x), rel=1e-6)
            assert float(r["p(0)"]) + float(r["p(1)"]) == pytest.approx(1)

    def test_abstention(self, pool, done):
        """Of 0.5 it is sure by σ(2), of -0.25 by σ(1)."""
        Path("x.csv").write_text("dose\n0.5\n-0.25\n")
        rows = self.rows(done("predict", "pool", "x.csv", "--samples", "0", "--threshold", "0.8"))
        assert [(r["class"], r["unsure"]) for r in rows] == [("0", ""), ("", "yes")]

    def test_a_bad_row_is_skipped_and_ranges_are_not_in_what_is_sent(self, pool, coterie):
        Path("x.csv").write_text("dose\n0.5\nmuch\n-0.25\n")
        code, printed, said = coterie("posterior", "predict", "pool", "x.csv", "--samples", "0")
        rows = self.rows(printed.splitlines())
        assert (code, [r["class"] for r in rows]) == (0, ["0", "", "1"])
        assert rows[1]["trust"] == "refused: dose 'much' is not a number"
        assert rows[0]["trust"] == "training's range is not recorded"
        assert "· line 3 is skipped: dose 'much' is not a number" in said

    def test_draws_are_averaged(self, pool, done):
        Path("x.csv").write_text("dose\n0.5\n")
        (got,) = self.rows(done("predict", "pool", "x.csv", "--samples", "7", "--seed", "4"))
        draws = sample(product([line(0.0, 1.0), line(3.0, 0.5)]), 7, Key(4).at("predict"))
        each = []
        for s in range(7):
            w, b = draws["head.weight"][s].flatten().tolist(), draws["head.bias"][s].tolist()
            each.append(1 / (1 + math.exp((w[1] - w[0]) * 0.5 + b[1] - b[0])))
        assert float(got["p(0)"]) == pytest.approx(sum(each) / 7, rel=1e-5)

    def test_temperature_widens_the_draws_around_the_same_mean(self, pool, done):
        Path("x.csv").write_text("dose\n0.5\n")
        (got,) = self.rows(done("predict", "pool", "x.csv", "--samples", "1", "--temperature", "4"))
        joint = product([line(0.0, 1.0), line(3.0, 0.5)])
        draw, mu = sample(joint, 1, Key(0).at("predict")), mean(joint)
        w, b = (mu[n] + 2 * (draw[n][0] - mu[n]) for n in ("head.weight", "head.bias"))
        z = (w[1, 0] - w[0, 0]) * 0.5 + b[1] - b[0]
        assert float(got["p(0)"]) == pytest.approx(1 / (1 + math.exp(z)), rel=1e-4)
        cold, still = (
            done("predict", "pool", "x.csv", *words)
            for words in (("--temperature", "1e-12"), ("--samples", "0"))
        )
        assert float(self.rows(cold)[0]["p(0)"]) == pytest.approx(
            float(self.rows(still)[0]["p(0)"]), rel=1e-5
        )

    def test_into_a_file(self, pool, done):
        Path("x.csv").write_text("dose\n0.5\n-0.25\n")
        printed = done("predict", "pool", "x.csv")
        assert done("predict", "pool", "x.csv", "--out", "new/y.csv") == ["table: new/y.csv"]
        assert Path("new/y.csv").read_text().splitlines() == printed

    def test_raw_values_are_prepared_as_by_one_client(self, done, refused):
        """(7 - 5) / 4 is 0.5 for north, (7 - 8) / 4 is -0.25 for south."""
        for name, slope, variance, center in (("north", 0.0, 1.0, 5.0), ("south", 3.0, 0.5, 8.0)):
            way = Preparation((Part(Column("dose", unit="mg", center=center, spread=4.0)),))
            save(name, line(slope, variance), preparation=way, classes=("well", "ill"))
        done("add", "pool", "north.safetensors", "south.safetensors")
        Path("x.csv").write_text("age,Dose\n70,7\n")
        assert refused("posterior", "predict", "pool", "x.csv") == (
            "coterie: the clients of pool (north, south) read or scale rows each in its own way: say in "
            "whose, such as --client north"
        )
        for name, x, guess in (("north", 0.5, "well"), ("south", -0.25, "ill")):
            (got,) = self.rows(done("predict", "pool", "x.csv", "--samples", "0", "--client", name))
            assert got["class"] == guess
            assert float(got["p(well)"]) == pytest.approx(probability(2, x), rel=1e-6)
        assert refused("posterior", "predict", "pool", "x.csv", "--client", "west") == (
            "coterie: client 'west' is not in pool: take one of north, south"
        )

    def test_the_same_bits_from_python_and_in_any_order(self, pool, done):
        Path("x.csv").write_text("dose\n" + "".join(f"{v / 7}\n" for v in range(-9, 9)))
        rows = self.rows(done("predict", "pool", "x.csv"))
        assert [float(r["p(0)"]) for r in rows] == pooled("pool").proba("x.csv")[:, 0].tolist()
        Path("y.csv").write_text("other,dose\n" + "".join(f"a,{v / 7}\n" for v in reversed(range(-9, 9))))
        back = self.rows(done("predict", "pool", "y.csv"))
        assert [r["p(0)"] for r in back] == [r["p(0)"] for r in reversed(rows)]

    def test_pictures_have_no_columns(self, done, refused):
        mu = {"head.weight": torch.tensor([[1.0] * 4, [0.0] * 4]), "head.bias": torch.zeros(2)}
        made = diagonal(mu, {n: torch.ones_like(t) for n, t in mu.items()})
        save("a", made, model={**LOGISTIC, "shape": [1, 2, 2]}, features=())
        done("add", "pool", "a.safetensors")
        Path("x.csv").write_text("0.25,0.25,0.25,0.25\n")
        assert refused("posterior", "predict", "pool", "x.csv") == (
            "coterie: the model of 'a' takes pictures of 1x2x2, which columns of a table cannot be matched "
            "to: predict from Python, coterie.use.pool.pooled(POOL).proba(array)"
        )
        (p,) = pooled("pool", samples=0).proba(np.full((1, 1, 2, 2), 0.25))
        assert p[0] == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-6)

    def test_batch_norm_uses_the_average_of_buffers(self, done):
        """The file's buffers stand in for the module's own."""
        model = {"name": "resnet18", "options": {"width": 4}, "shape": [1, 8, 8], "outputs": 2}
        module = MODELS.make("resnet18", width=4).build((1, 8, 8), 2, seed=1)
        belief = belief_of(module)
        inside = {n: belief[n] for n, _ in module.named_parameters()}
        outside = {n: t for n, t in belief.items() if n not in inside}
        far = {n: t + 2 if t.is_floating_point() else t for n, t in outside.items()}
        small = {n: torch.full_like(t, 1e-4) for n, t in inside.items()}
        save("a", diagonal(inside, small), model=model, buffers=outside, features=())
        save("b", diagonal(inside, small), model=model, buffers=far, features=())
        done("add", "pool", "a.safetensors", "b.safetensors")
        with torch.no_grad():
            for n, t in module.named_buffers():
                if t.is_floating_point():
                    t.copy_(outside[n] + 1)
        x = torch.arange(64.0).reshape(1, 1, 8, 8) / 64
        with torch.no_grad():
            expected = module.eval()(x).softmax(dim=1)[0, 0].item()
        assert pooled("pool", samples=0).proba(x)[0, 0] == pytest.approx(expected, rel=1e-4)


TABLE = (
    "--data",
    "table",
    "--table.path",
    "all.csv",
    "--table.target",
    "sick",
    "--split",
    "iid",
    "--clients",
    "2",
)
TABLE += ("--split", "iid", "--table.scale", "constants")


@pytest.fixture
def folder(coterie):
    """A run of two clients with one input each, some 40 rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    sick = (x + rng.normal(size=40) < 0).astype(int)
    text = "".join(f"{a:.3f},{b}\n" for a, b in zip(x, sick, strict=True))
    Path("all.csv").write_text("dose,sick\n" + text)
    code, _, said = coterie("run", *TABLE, "--method", "local", "--rounds", "1", "--out", "here")
    assert code == 0, said
    return Path("here")


def experiment_of(folder: Path):
    return prepare(from_table(read_record(folder).config, "config"), None)


def sites_of(folder: Path):
    return experiment_of(folder).net.net.clients


class TestPredictRun:
    def test_scores_by_hand(self):
        """Confidences .8 (right) and .6 (wrong)."""
        found = scores(torch.tensor([[0.8, 0.2], [0.4, 0.6]]).double(), torch.tensor([0, 0]))
        assert found["accuracy"] == 0.5
        assert found["ece"] == pytest.approx((0.2 + 0.6) / 2)
        assert found["brier"] == pytest.approx((0.04 + 0.04 + 0.36 + 0.36) / 2)
        assert found["nll"] == pytest.approx(-(math.log(0.8) + math.log(0.4)) / 2)

    def test_the_mean_goes_by_rows(self, client_of):
        few = client_of([[0.0]], [0], name="few")
        many = client_of([[0.0]] * 3, [0] * 3, name="many")
        table = score_table([few, many], [{"accuracy": 1.0}, {"accuracy": 0.5}])
        assert [list(c.cells) for c in table.columns] == [
            ["few", "many", "weighted mean"],
            ["1", "3", "4"],
            ["100.0", "50.0", "62.5"],  # (1 + 3 / 2) / 4
        ]

    def test_every_client_on_its_own_test_rows(self, pool, done, folder):
        lines = done("predict", "pool", "here", "--samples", "0", "--out", "y.csv")
        assert lines[-1] == "table: y.csv"
        rows = rows_of("y.csv")
        assert list(rows[0]) == ["client", "row", "truth", "class", "confidence", "p(0)", "p(1)"]
        shown = [text.split() for text in lines[3:-2]]
        totals = np.zeros(4)
        for client, cells in zip(sites_of(folder), shown, strict=False):
            mine = [r for r in rows if r["client"] == client.name]
            assert [int(r["row"]) for r in mine] == list(range(1, len(client.test) + 1))
            assert [int(r["truth"]) for r in mine] == client.test.y.tolist()
            p = np.array([probability(2, x) for x in client.test.x.flatten().tolist()])
            assert [float(r["p(0)"]) for r in mine] == pytest.approx(p.tolist(), rel=1e-5)
            right = np.where(client.test.y.numpy() == 0, p, 1 - p)
            figures = scores(torch.tensor(np.stack([p, 1 - p], axis=1)), client.test.y)
            assert figures["accuracy"] == pytest.approx((right > 0.5).mean())
            assert figures["brier"] == pytest.approx((2 * (1 - right) ** 2).mean())
            assert figures["nll"] == pytest.approx(-np.log(right).mean())
            assert cells == [client.name, str(len(right)), *(figure(v, m) for m, v in figures.items())]
            totals += len(right) * np.array(list(figures.values()))
        means = dict(zip(("accuracy", "ece", "brier", "nll"), totals / len(rows), strict=True))
        assert shown[-1] == ["weighted", "mean", str(len(rows)), *(figure(v, m) for m, v in means.items())]
        assert lines[-2] == "the mean of the joint posterior of 2 clients, 120 rows"

    def test_the_same_rows_as_a_csv(self, pool, done, folder):
        """Draws are the same for all clients of a run, and for a CSV."""
        done("predict", "pool", "here", "--samples", "5", "--out", "y.csv")
        first = sites_of(folder)[0]
        Path("x.csv").write_text("dose\n" + "".join(f"{v!r}\n" for v in first.test.x.flatten().tolist()))
        alone = list(csv.DictReader(done("predict", "pool", "x.csv", "--samples", "5")))
        mine = [r for r in rows_of("y.csv") if r["client"] == first.name]
        assert [float(r["p(0)"]) for r in alone] == pytest.approx([float(r["p(0)"]) for r in mine], rel=1e-6)

    def test_batch_norm_is_renewed_by_each_client(self, done, coterie):
        """No client has more rows than a batch: its statistics are those of one pass."""
        words = ("--data", "digits", "--clients", "6", "--test", "0.9", "--rounds", "1", "--out", "here")
        assert coterie("run", *words)[0] == 0
        model = {"name": "resnet18", "options": {"width": 4}, "shape": [1, 8, 8], "outputs": 10}
        module = MODELS.make("resnet18", width=4).build((1, 8, 8), 10, seed=1)
        belief = belief_of(module)
        inside = {n: belief[n] for n, _ in module.named_parameters()}
        save(
            "a",
            diagonal(inside, {n: torch.full_like(t, 1e-4) for n, t in inside.items()}),
            model=model,
            buffers={n: t for n, t in belief.items() if n not in inside},
            features=(),
            classes=tuple("0123456789"),
        )
        done("add", "pool", "a.safetensors")
        lines = done("predict", "pool", "here", "--samples", "0", "--out", "y.csv")
        assert "batch norm renewed on each client's training rows" in " ".join(lines[-3:-1])
        rows = rows_of("y.csv")
        for layer in module.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.momentum = 1.0
        for client in sites_of(Path("here"))[:3]:
            assert len(client.train) <= 32
            with torch.no_grad():
                module.train()(client.train.x)
                expected = module.eval()(client.test.x).softmax(dim=1)[:, 0]
            mine = [float(r["p(0)"]) for r in rows if r["client"] == client.name]
            assert mine == pytest.approx(expected.tolist(), rel=1e-4)

    def test_posteriors_that_swag_collected(self, done, folder):
        """Each client trains alone; its file is added later; the two predict better than a coin."""
        experiment = experiment_of(folder)
        net, clients = experiment.net, experiment.net.net.clients
        work = Gather(SWAG(lr=0.5, batch=4, epochs=10))
        start = hold(repeat(experiment.beliefs, len(clients)), torch.arange(len(clients)))
        replies = net.visit(work, start, to_own(len(clients)), Key(0).at_round(1, 1))
        for i, client in enumerate(clients):
            found = collected(row(net.open(replies.beliefs), i))
            made = from_collected(found.mean, found.variance, found.deviations, found.count, "low-rank", 1e-6)
            save(client.name, made, len(client.train), file=folder / "posteriors" / f"{i}.safetensors")
        done("add", "pool", "here")
        lines = done("predict", "pool", "here", "--samples", "20", "--out", "y.csv")
        assert lines[-2].startswith("20 models drawn from the joint posterior of 2 clients")
        rows = rows_of("y.csv")
        assert sum(r["truth"] == r["class"] for r in rows) > len(rows) / 2


class TestRefusals:
    def test_adding(self, pool, kept):
        kept(["add", "pool"], "no posteriors to add: name at least one file or folder of a run")
        kept(["add", "pool", "nowhere"], "no posterior at nowhere: check the path")
        said = "client 'north' is in pool already: replace it with --update"
        kept(["add", "pool", "north.safetensors"], said)
        Path("empty").mkdir()
        kept(["add", "pool", "empty"], "empty holds no posteriors: name a finished run of fl-swag, or files")
        save("west", line(0.0, 1.0), file="west")
        save("west", line(0.0, 1.0), file="other")
        said = "client 'west' is both in west and in other: give one of them"
        kept(["add", "pool", "west", "other"], said)
        said = "prior=1 comes too late for pool: make a new pool with it"
        kept(["add", "pool", "west", "--prior", "1"], said)
        said = "prior=-1.0 must be at least 0 and finite: try 1, or 0 for none"
        kept(["add", "new/one", "west", "--prior", "-1"], said)
        said = "posteriors of different models: 'head.bias' has shapes [2] and [3]: join those of one model"
        save("wide", isotropic({"head.weight": torch.zeros(3, 1), "head.bias": torch.zeros(3)}, 1.0))
        kept(["add", "pool", "wide.safetensors"], said)
        kept(["add", "new/one", "west", "wide.safetensors"], said)

    def test_one_bad_file_of_two_adds_none(self, pool, kept):
        save("west", line(0.0, 1.0))
        save("other", line(0.0, 1.0), model={**LOGISTIC, "name": "mlp"})
        said = (
            "posteriors of different models: name is \"logistic\" for 'north', \"mlp\" for 'other': "
            "join those of one model"
        )
        kept(["add", "pool", "west.safetensors", "other.safetensors"], said)

    def test_damaged_files(self, pool, kept):
        said = "is damaged or no pool (its kind is 'posterior 2', not 'pool 2'): join its posteriors anew"
        kept(["add", "north.safetensors", "south.safetensors"], f"north.safetensors {said}")
        said = "is damaged or no posterior (its kind is 'pool 2', not 'posterior 2'): "
        said += "ask its client to save it anew"
        kept(["add", "new", "pool"], f"pool {said}")

    def test_a_pool_cut_short(self, pool, refused):
        cut = pool.read_bytes()[:-1]
        pool.write_bytes(cut)
        said = refused("posterior", "remove", "pool", "north")
        assert re.fullmatch(r"coterie: pool is damaged or no pool \(.+\): join its posteriors anew", said)
        assert pool.read_bytes() == cut

    def test_removing(self, pool, kept, done):
        kept(["remove", "pool"], "nobody to remove: name at least one client")
        kept(["remove", "pool", "nord"], "unknown client 'nord': did you mean north?")
        kept(["remove", "pool", "north", "x"], "unknown client 'x': known are south")
        kept(["remove", "no", "north"], "no pool at no: make one with 'coterie posterior add no FILE'")
        done("remove", "pool", "north", "south")
        said = "pool has no clients: add one with 'coterie posterior add pool FILE'"
        for words in (["remove", "pool", "x"], ["show", "pool"], ["predict", "pool", "x.csv"]):
            kept(words, said)

    def test_what_would_be_no_gaussian(self, kept):
        """Prior precision 4; a and b have 1, c has 8: without c, 1 + 1 - 4."""
        pool = with_prior(line(0.0, 1 / 4))
        for name, precision in (("c", 8), ("a", 1), ("b", 1)):
            more = {"features": ("dose",), "classes": ("0", "1")}
            pool = join(pool, Saved(name, 1, line(0.0, 1 / precision), LOGISTIC, **more))
        write_pool(Path("pool"), pool)
        remedy = "must be above 0: update or remove others first, or take a prior of larger variance"
        kept(["remove", "pool", "c"], f"removing 'c' leaves precision -2 at head.bias[0], {remedy}")
        save("c", line(0.0, 1 / 5))
        words = ["add", "pool", "c.safetensors", "--update"]
        kept(words, f"updating 'c' leaves precision -1 at head.bias[0], {remedy}")
        save("d", line(0.0, 1.0))
        said = (
            "adding 'd' leaves precision -1 at head.bias[0], must be above 0: take a prior of larger variance"
        )
        kept(["add", "pool", "d.safetensors"], said)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a\n1\n3\n", "x.csv: column 'dose' is missing: add it"),
            ("1\n2\n", "x.csv: column 'dose' is missing: add it"),
            ("dose\n1\nnan\n", "x.csv, line 3, column 'dose' is missing: fill it in or leave the row out"),
            ("dose\nTrue\n", "x.csv, line 2, column 'dose': 'True' is not a number: correct it"),
        ],
    )
    def test_cells(self, pool, refused, text, said):
        Path("x.csv").write_text(text)
        words = ("posterior", "predict", "pool", "x.csv", "--out", "y.csv", "--strict")
        assert refused(*words) == f"coterie: {said}"

    def test_other_columns_classes_units_and_scales(self, kept):
        """Whose weights are of something else: nothing is joined without a word any more."""

        def two(name, *features, **more):
            model = {**LOGISTIC, "shape": [2]}
            made = isotropic({"head.weight": torch.zeros(2, 2), "head.bias": torch.zeros(2)}, 1.0)
            save(name, made, model=model, features=features, **more)
            return f"{name}.safetensors"

        first = two("first", "age", "dose")
        said = "posteriors of different columns: input 1 is 'age' for 'first' and 'dose' for 'turned': "
        said += "join those that were trained on the same columns in the same order"
        kept(["add", "new", first, two("turned", "dose", "age")], said)
        said = "posteriors of different columns: only 'first' has dose: join those that were trained on the "
        kept(["add", "new", first, two("other", "age", "weight")], said + "same columns in the same order")
        said = (
            "posteriors of different classes: 0, 1 for 'first' and 1, 0 for 'swapped': join those with the "
        )
        swapped = two("swapped", "age", "dose", classes=("1", "0"))
        kept(["add", "new", first, swapped], said + "same classes in the same order")
        scaled = (Part(Column("age", center=50.0, spread=9.0)), Part(Column("dose")))
        scaled = two("scaled", "age", "dose", preparation=Preparation(scaled))
        said = "posteriors on different scales: 'first' takes numbers as they are, 'scaled' scales them: "
        kept(["add", "new", first, scaled], said + "prepare both alike")
        kilos, pounds = (
            two(
                n, "age", "dose", preparation=Preparation((Part(Column("age")), Part(Column("dose", unit=u))))
            )
            for n, u in (("kilos", "kg"), ("pounds", "lb"))
        )
        said = "posteriors in different units: 'dose' is in kg for 'kilos' and in lb for 'pounds': "
        kept(["add", "new", kilos, pounds], said + "train on one unit")

    def test_scales_of_ones_own_are_said(self, coterie):
        for name, center in (("north", 5.0), ("south", 8.0)):
            way = Preparation((Part(Column("dose", center=center, spread=4.0)),))
            save(name, line(0.0, 1.0), preparation=way)
        code, _, said = coterie("posterior", "add", "pool", "north.safetensors", "south.safetensors")
        note = (
            "columns that clients scale each by its own numbers, so that weights count per deviation of each"
        )
        assert (code, said) == (0, f"· {note}: dose\n")

    def test_predicting(self, pool, kept, done):
        Path("x.csv").write_text("dose\n1\n")
        kept(["predict", "pool", "no.csv"], "no run folder or table at no.csv: check the path")
        said = "samples=-1 must be at least 0: try 30, or 0 for the mean"
        kept(["predict", "pool", "x.csv", "--samples", "-1"], said)
        kept(["predict", "pool", "x.csv", "--seed", "-1"], "seed=-1 must be at least 0: try 0")
        for heat in ("0", "nan"):
            said = f"temperature={float(heat)} must be above 0 and finite: try 1, or --samples 0"
            kept(["predict", "pool", "x.csv", "--temperature", heat], said)
        for out in ("x.csv", "./pool"):
            said = f"out={out} would overwrite what is read: choose another --out"
            kept(["predict", "pool", "x.csv", "--out", out], said)
        save("a", line(0.0, 1.0), model={})
        done("add", "other", "a.safetensors")
        said = "other does not say how to build its network: predict from Python with "
        said += "coterie.posteriors.ensemble.predict"
        kept(["predict", "other", "x.csv"], said)
        kept(["predict", "pool", "."], ". is not a run folder: it has no config.toml and run.json")

    def test_a_run_on_other_data(self, pool, kept, done, folder, coterie):
        save(
            "a",
            isotropic({"head.weight": torch.zeros(2, 3), "head.bias": torch.zeros(2)}, 1.0),
            model={**LOGISTIC, "shape": [3]},
            features=("a", "b", "c"),
        )
        done("add", "wide", "a.safetensors")
        said = "here has inputs of shape [1], the network of wide takes [3]: take a run on the same data"
        kept(["predict", "wide", "here"], said)
        text = Path("all.csv").read_text().splitlines()
        other = [text[0], *(f"{a.split(',')[0]},{i % 3}" for i, a in enumerate(text[1:]))]
        Path("three.csv").write_text("\n".join(other))
        words = [w.replace("all.csv", "three.csv") for w in TABLE]
        assert coterie("run", *words, "--method", "local", "--rounds", "1", "--out", "three")[0] == 0
        said = "three has 3 classes, the network of pool knows 2: take a run on the same data"
        kept(["predict", "pool", "three"], said)
        words = ["--table.task", "regression", "--model", "linear", "--method", "local", "--rounds", "1"]
        assert coterie("run", *TABLE, *words, "--out", "number")[0] == 0
        said = "number predicts a number, pool classes: take a run on the same data"
        kept(["predict", "pool", "number"], said)
        Path("all.csv").write_text("\n".join(text[:-1]) + "\n9.0,0\n")
        said = "here: the data or the first model differ from those it began with: run it anew"
        kept(["predict", "pool", "here"], said)

    def test_a_run_from_python(self, pool, kept):
        rows = torch.arange(20.0).reshape(20, 1)
        client = package.Client.from_arrays(rows, torch.arange(20) % 2, name="one")
        package.train("logistic", [client], "local", rounds=1, out="given")
        said = "given was started from Python, its data is there: predict there too"
        kept(["predict", "pool", "given"], said)

    def test_commands(self, kept):
        kept(["ad", "pool"], "unknown posterior command 'ad': did you mean add?")
        kept(
            ["show"],
            "Missing from coterie posterior show: POOL The file of the pool. (required) "
            "(see coterie posterior show --help)",
        )


class TestHelp:
    def test_the_command_names_all(self, done):
        assert done() == done("--help") == done("-h")
        for command in KINDS:
            assert any(f"coterie posterior {command} POOL" in text for text in done())
            example = re.split(r"examples?:\n", "\n".join(done(command, "--help")))[1]
            assert example.startswith(f"  coterie posterior {command}")

    def test_the_commands_of_the_page_work(self, coterie):
        """Two hospitals that train alone, each on a file of its own, and join later."""
        (text,) = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "posteriors.md").read_text(), re.M | re.S)
        rng = np.random.default_rng(0)
        for name in ("north", "south"):
            x = rng.normal(5, 2, size=(40, 2))
            sick = np.where(x.sum(axis=1) + rng.normal(size=40) > 10, "ill", "well")
            rows = "".join(f"{a:.2f},{b:.2f},{c}\n" for (a, b), c in zip(x, sick, strict=True))
            Path(f"{name}.csv").write_text("dose,weight,state\n" + rows)
            made = coterie("table", "inspect", f"{name}.csv", "--target", "state", "--out", f"{name}.toml")
            assert made[0] == 0, made[2]
        Path("patients.csv").write_text("weight,dose\n9.5,9\n1,0.5\n")
        said = {}
        for typed in text.splitlines():
            _, *words = shlex.split(typed, comments=True)
            short = ("--rounds", "2", "--sgd.epochs", "5") if words[0] == "run" else ()
            code, printed, err = coterie(*words, *short)
            assert code == 0, err
            said[" ".join(words[:4])] = printed.splitlines()
        assert len(said) == 8  # north is added twice
        found = csv.DictReader(said["posterior predict all.safetensors patients.csv"])
        assert [r["class"] for r in found] == ["ill", "well"]
        assert list(read_pool(Path("all.safetensors")).members) == ["north"]
        member = read_pool(Path("all.safetensors")).members["north"]
        assert (member.features, member.classes) == (("dose", "weight"), ("ill", "well"))
        assert member.recipe is not None
        assert not member.recipe.sites  # of files nothing
