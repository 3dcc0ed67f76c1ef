"""Work around work, as people write it: in files, in flags, in Python, and for one method of a comparison."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w
import torch
from torch import nn

import coterie as package
from coterie.core.errors import BadInput
from coterie.features.tuning.tuning import Tuning
from coterie.kernels import DP, SGD, Adam
from coterie.kernels.nested import made, names_in, spelled, tables_of
from coterie.runs.compare import Comparison, parsed, read_records
from coterie.runs.settings import Settings, from_table


class TestNames:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("sgd", ("sgd",)),
            ("dp(sgd)", ("dp", "sgd")),
            (" dp ( adam ) ", ("dp", "adam")),
            ("dp", ("dp", "sgd")),
            ("bounded", ("bounded", "sgd")),
        ],
    )
    def test_are_read(self, text, names):
        assert names_in(text) == names
        assert names_in(spelled(names)) == names

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("dp(sgd", "kernel 'dp(sgd': brackets do not match: write dp(sgd)"),
            ("dp(sgd))", "kernel 'dp(sgd))': brackets do not match: write dp(sgd)"),
            ("dp()", "kernel 'dp()': brackets do not match: write dp"),
            ("()", "kernel '()': brackets do not match: write dp(sgd)"),
            (
                "sgd(dp)",
                "kernel 'sgd(dp)': sgd goes around nothing, bounded and dp do: write dp, or dp(sgd)",
            ),
        ],
    )
    def test_are_refused(self, text, said, refused_in_python):
        with refused_in_python(BadInput, said):
            names_in(text)

    def test_an_unknown_one(self):
        with pytest.raises(BadInput, match="unknown kernel 'sgdd': did you mean sgd"):
            names_in("dp(sgdd)")

    def test_twice_the_same(self, refused_in_python):
        with refused_in_python(BadInput, "dp(dp(...)): dp goes around plain work: try dp(sgd)"):
            made("dp(dp(sgd))", {})

    def test_each_has_a_table(self):
        options = {"dp": {"sigma": 2.0}, "adam": {"lr": 0.5}, "other": {}}
        work = made("dp(adam)", options)
        assert work == DP(Adam(lr=0.5), sigma=2.0)
        text, tables = tables_of(work)
        assert (text, list(tables)) == ("dp(adam)", ["dp", "adam"])
        assert made(text, tables) == work


@pytest.fixture
def refused_in_python(request):
    """The refusal of `tests/conftest.py`; here `refused` runs commands."""
    from contextlib import contextmanager

    @contextmanager
    def check(kind, message):
        with pytest.raises(kind) as caught:
            yield
        assert str(caught.value) == message

    return check


class TestSettings:
    def test_every_option_is_spelled_out_and_survives_toml(self):
        options = {"dp": {"sigma": 2.0}, "sgd": {"batch": 8}}
        settings = Settings(kernel="dp", options=options).resolved()
        assert settings.kernel == "dp(sgd)"
        assert settings.options["dp"] == {"clip": 1.0, "sigma": 2.0, "sampling": "poisson", "cap": 0}
        assert settings.options["sgd"]["batch"] == 8
        assert settings.made("kernel") == DP(SGD(batch=8), sigma=2.0)
        again = from_table(tomllib.loads(tomli_w.dumps(settings.table())), "there")
        assert again == settings == settings.resolved()

    def test_options_of_what_is_not_inside(self, refused_in_python):
        with refused_in_python(
            BadInput,
            "options for 'adam', which this run does not use: it uses digits, shift, logistic, fedavg, dp, "
            "sgd, auto, in-process",
        ):
            Settings(data="digits", kernel="dp(sgd)", options={"adam": {"lr": 1.0}}).resolved()


class TestComparison:
    methods = ("fedavg", "fedavg:kernel=dp(sgd)", "local:kernel=dp(adam),dp.sigma=3")
    shared = Settings(data="digits", options={"dp": {"clip": 0.5}, "sgd": {"lr": 0.3}})

    def test_a_method_has_local_work_of_its_own(self):
        comparison = Comparison(self.shared, self.methods, 1)
        works = [comparison.with_method(spec).made("kernel") for spec in self.methods]
        assert works == [SGD(lr=0.3), DP(SGD(lr=0.3), clip=0.5), DP(Adam(), clip=0.5, sigma=3.0)]

    def test_a_spec_is_read(self):
        assert parsed("fedavg:kernel=dp,sample=0.5") == ("fedavg", {"kernel": "dp(sgd)", "sample": 0.5})
        with pytest.raises(BadInput, match="brackets do not match"):
            parsed("fedavg:kernel=dp(sgd")

    def test_what_matters_of_it_is_searched(self):
        tuning = Tuning(self.shared, ("fedavg:kernel=dp(sgd)", "fedavg"), ("dp.clip=0.1..1",), 2, 2)
        usual = ["sgd.lr", "sgd.weight_decay", "sgd.schedule", "rounds"]
        assert [a.name for a in tuning.axes("fedavg:kernel=dp(sgd)")] == [*usual, "dp.clip"]
        assert [a.name for a in tuning.axes("fedavg")] == usual


@pytest.mark.usefixtures("coarsely")
class TestCommands:
    def test_a_private_run_and_its_clear_twin(self, coterie, tmp_path):
        code, out, said = coterie(
            *[
                "compare",
                "--data",
                "digits",
                "--split",
                "iid",
                "--clients",
                "3",
                "--rounds",
                "2",
                "--seeds",
                "1",
                "--out",
                "there",
            ],
            *["--methods", "fedavg", "fedavg:kernel=dp(sgd)", "--dp.sigma", "2", "--sgd.lr", "0.4"],
        )
        assert code == 0, said
        _, clear, private = read_records(tmp_path / "there")
        assert (clear.config["kernel"], private.config["kernel"]) == ("sgd", "dp(sgd)")
        assert "dp" not in clear.config
        assert private.config["dp"]["sigma"] == 2.0
        assert clear.config["sgd"] == private.config["sgd"]
        losses = [m["loss"] for m in private.metrics if "loss" in m]
        assert all(value is None for row in losses for value in row)  # not told
        assert "fedavg:kernel=dp(sgd)" in out

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--kernel", "dp(sgd"], "brackets do not match: write dp(sgd)"),
            (["--kernel", "dp(dp(sgd))"], "dp goes around plain work: try dp(sgd)"),
            (["--kernel", "dp", "--dp.sigma", "0"], "sigma=0.0 must be above 0"),
            (
                ["--kernel", "dp", "--sgd.batch", "64", "--dp.cap", "40"],
                "cap=40 must be at least the batch, 64",
            ),
            (["--kernel", "dp", "--adam.lr", "1"], "options for 'adam', which this run does not use"),
            (
                ["--kernel", "dp", "--sgd.batch", "500"],
                "client 'client-0' has 127 training rows, and dp needs at least a batch of them, 500: lower "
                "batch, or leave the client out",
            ),
        ],
    )
    def test_refused(self, words, said, refused):
        assert said in refused("run", "--data", "digits", *words)

    def test_batch_norm_is_refused_before_anything_runs(self, refused, tmp_path):
        plugin = tmp_path / "normed.py"
        plugin.write_text(
            "from dataclasses import dataclass\nfrom torch import nn\nfrom coterie.models import MODELS\n"
            "@MODELS.register('normed')\n@dataclass(frozen=True)\nclass Normed:\n"
            "    def build(self, shape, outputs, seed):\n"
            "        layers = nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10)\n"
            "        return nn.Sequential(nn.Flatten(), *layers)\n"
        )
        words = ["--data", "digits", "--model", "normed", "--plugins", str(plugin), "--kernel", "dp"]
        assert "dp cannot hide rows in a model with batch norm (BatchNorm1d '2')" in refused("run", *words)


@pytest.mark.usefixtures("coarsely")
class TestPython:
    def clients(self, client_of):
        generator = torch.Generator().manual_seed(0)
        made = []
        for i in range(3):
            x, y = torch.randn(60, 4, generator=generator), torch.arange(60) % 3
            made.append(client_of(x[:40], y[:40], name=str(i), test=(x[40:], y[40:])))
        return made

    def test_by_name_and_as_an_object(self, client_of):
        clients, model = self.clients(client_of), nn.Linear(4, 3)
        named = package.train(model, clients, kernel="dp(sgd)", rounds=2, sigma=0.5, lr=0.2)
        given = package.train(model, clients, kernel=DP(SGD(lr=0.2), sigma=0.5), rounds=2)
        assert named.record.config == given.record.config
        assert named.record.config["kernel"] == "dp(sgd)"
        assert named.record.curve("accuracy")[1].tolist() == given.record.curve("accuracy")[1].tolist()

    def test_a_comparison(self, client_of):
        methods = ["fedavg", "fedavg:kernel=bounded,clip=0.1", "local:kernel=dp"]
        with pytest.raises(BadInput, match="clip"):  # an option of the work has its name before it
            package.compare(nn.Linear(4, 3), self.clients(client_of), methods=methods, rounds=1, seeds=1)
        methods[1] = "fedavg:kernel=bounded,bounded.clip=0.1"
        found = package.compare(
            nn.Linear(4, 3), self.clients(client_of), methods=methods, rounds=1, seeds=1, sigma=0.5, lr=0.3
        )
        configs = [found.results[spec][0].record.config for spec in methods]
        assert [c["kernel"] for c in configs] == ["sgd", "bounded(sgd)", "dp(sgd)"]
        assert [c["sgd"]["lr"] for c in configs] == [0.3] * 3
        assert configs[1]["bounded"] == {"clip": 0.1, "sigma": 0.5}
