"""Metric-guided averaging: Algorithm 1 by hand on every engine, who inherits whose score, FedAvg within."""

from __future__ import annotations

import math
import re
import shlex
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from torch import nn

import coterie
from coterie.cli.main import main
from coterie.core.belief import belief_of, stack
from coterie.core.errors import BadInput, UnknownName
from coterie.core.net import from_server
from coterie.core.seeds import Key
from coterie.kernels import SGD
from coterie.methods import METHODS, FedAvg, FedKG, FedUnique, Guided
from coterie.methods.server.guided import State, led_by, scored
from coterie.metrics.layers import LAYER_METRICS, layer_metric
from coterie.runs.folder import read_record
from coterie.storage import checkpoint

HALF = SGD(lr=0.25, batch=1000)
START = {"weight": torch.tensor([[[2.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)}


class Entries(nn.Module):
    """x·W as one number, W [2, 2] taken as four weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))

    def forward(self, x):
        return (x * self.weight.flatten()).sum(dim=1, keepdim=True)


@pytest.fixture
def corner(client_of, net_of):
    """Clients that pull the first entry of a 2x2 matrix, each to its own target: w to (w + y) / 2."""

    def make(targets, sizes, engine="loop"):
        first = torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64)
        clients = [
            client_of(first.repeat(n, 1), torch.full((n,), float(y)).double(), name=f"c{i}")
            for i, (y, n) in enumerate(zip(targets, sizes, strict=True))
        ]
        return net_of(Entries().double(), clients, engine)

    return make


@pytest.fixture
def registry():
    known = dict(LAYER_METRICS._known)
    yield LAYER_METRICS
    LAYER_METRICS._known.clear()
    LAYER_METRICS._known.update(known)


def close(found, wanted, tolerance=1e-12):
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        torch.tensor([[float(v) for v in row] for row in wanted], dtype=torch.float64),
        rtol=0,
        atol=tolerance,
    )


def entry(state) -> float:
    """The number that is pulled; the other three stay."""
    (((w, a), (b, c)),) = state.beliefs.tensors["weight"].tolist()
    assert (a, b) == (0, 0)
    assert c == pytest.approx(1)
    return w


class TestByHand:
    @pytest.mark.parametrize("engine", ["loop", "stacked"])
    def test_knowledge_gain(self, corner, play, engine):
        states, infos = play(FedKG(HALF, raw=True), corner([0, 6], [1, 3], engine), START, 2)
        # with entries w and 1 in the diagonal, s = (w² + 1) / (2 max(w, 1)²); at first w = 2 and s = 5/8
        s = lambda w: (w**2 + 1) / (2 * max(w, 1) ** 2)  # noqa: E731
        # round 1: 2 → 1 and 4, s = 1 and 17/32, gains 3/8 and -3/32
        a1, b1 = Fraction(4, 5) + Fraction(3, 8), Fraction(4, 5) - Fraction(3, 32)
        share = a1 / (a1 + 3 * b1)
        w1 = share * 1 + (1 - share) * 4
        close(states[1].alpha, [[a1, b1]])
        close(infos[0].weights, [[share, 1 - share]] * 2)
        assert entry(states[1]) == pytest.approx(float(w1), abs=1e-12)
        assert infos[0].extras["layer_weights"]["weight"] == pytest.approx([float(share), float(1 - share)])
        # round 2: w1 → w1 / 2 and (w1 + 6) / 2, gains over each client's own last s
        mine, yours = w1 / 2, (w1 + 6) / 2
        a2 = Fraction(4, 5) * a1 + s(mine) - 1
        b2 = Fraction(4, 5) * b1 + s(yours) - Fraction(17, 32)
        share = a2 / (a2 + 3 * b2)
        close(states[2].alpha, [[a2, b2]])
        close(states[2].past["knowledge-gain"], [[s(mine), s(yours)]])
        assert entry(states[2]) == pytest.approx(float(share * mine + (1 - share) * yours), abs=1e-12)

    def test_uniqueness(self, corner, play):
        states, infos = play(FedUnique(HALF, raw=True), corner([0, 2, 6], [1, 1, 2]), START, 2)

        def unique(entries):
            """Σ_k 1 - cos of (w_i, 1) and (w_k, 1)."""
            cos = lambda v, w: (v * w + 1) / math.sqrt((v * v + 1) * (w * w + 1))  # noqa: E731
            return [
                sum(1 - cos(v, w) for j, w in enumerate(entries) if j != i) for i, v in enumerate(entries)
            ]

        alpha, w = [1.0, 1.0, 1.0], 2.0
        for state, info in zip(states[1:], infos, strict=True):
            entries = [(w + y) / 2 for y in (0, 2, 6)]
            alpha = [0.8 * a + u for a, u in zip(alpha, unique(entries), strict=True)]
            parts = [n * a for n, a in zip((1, 1, 2), alpha, strict=True)]
            w = sum(p * v for p, v in zip(parts, entries, strict=True)) / sum(parts)
            close(state.alpha, [alpha])
            close(info.weights, [[p / sum(parts) for p in parts]] * 3)
            assert entry(state) == pytest.approx(w, abs=1e-12)

    def test_two_metrics_are_multiplied(self, corner, play):
        # w = 2 → 1 and 4: updates of 1 and 2, s = 1 and 17/32; β = 0.5, ζ = 2
        method = Guided(HALF, metric="stable-rank*update-norm", raw=True, beta=0.5, zeta=2.0, weighted=False)
        states, _ = play(method, corner([0, 6], [1, 3]), START, 1)
        a, b = 0.5 + 2 * 1 * 1, 0.5 + 2 * (17 / 32) * 2
        close(states[1].alpha, [[a, b]])
        assert entry(states[1]) == pytest.approx((a * 1 + b * 4) / (a + b), abs=1e-12)

    def test_validation_loss(self, pull, play):
        # 0 → 1/2 and 3/2; on validation targets 1/2 and 5/2 the losses are 0 and 1, the scores 1 and 1/2
        start = {"weight": torch.zeros(1, 1, 1, dtype=torch.float64)}
        net = pull([1, 3], validation=[0.5, 2.5])
        states, _ = play(Guided(HALF, metric="validation-loss"), net, start, 1)
        close(states[1].alpha, [[1.8, 1.3]])
        found = states[1].beliefs.tensors["weight"].item()
        assert found == pytest.approx((1.8 * 0.5 + 1.3 * 1.5) / 3.1)

    def test_a_floor(self, corner, play):
        # β = 0: the score alone; one client moves 3, the other 0
        method = Guided(HALF, metric="update-norm", beta=0.0, weighted=False)
        states, _ = play(method, corner([2, 8], [1, 1]), START, 1)
        close(states[1].alpha, [[1e-3, 3]])
        assert entry(states[1]) == pytest.approx((1e-3 * 2 + 3 * 5) / 3.001)


class TestWhoIsThere:
    def test_those_who_are_gone_keep_their_memory_and_leave_the_average(self, corner, play, without):
        net = without(corner([0, 6], [1, 3]), {2: (0,)})
        states, infos = play(FedKG(HALF, raw=True), net, START, 3)
        assert states[2].alpha[0, 0] == states[1].alpha[0, 0]
        assert states[2].past["knowledge-gain"][0, 0] == states[1].past["knowledge-gain"][0, 0]
        assert states[2].alpha[0, 1] != states[1].alpha[0, 1]
        close(infos[1].weights, [[0, 1]] * 2)
        assert infos[1].extras["layer_weights"]["weight"] == [None, 1.0]
        assert states[3].alpha[0, 0] != states[2].alpha[0, 0]

    def test_nobody_answers_and_nothing_changes(self, corner, play, without):
        states, infos = play(FedKG(HALF), without(corner([0, 6], [1, 3]), {1: (0, 1)}), START, 2)
        assert states[1] is states[0]
        assert not bool(infos[0].weights.any())
        assert infos[0].extras == {}


class Net(nn.Module):
    """Convolutions around a batch norm, then a linear layer: names in an order that is not the alphabet's."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1))
        self.z = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.b = nn.Conv2d(3, 4, 3)
        self.a = nn.Linear(16, 3)

    def forward(self, x):
        return self.a(torch.relu(self.b(torch.relu(self.norm(self.z(x + self.shift))))).flatten(1))


@pytest.fixture
def pictures(client_of):
    def make(sizes=(6, 9, 14)):
        clients = []
        for i, n in enumerate(sizes):
            generator = torch.Generator().manual_seed(i)
            x, y = torch.randn(n, 1, 4, 4, generator=generator), torch.randint(3, (n,), generator=generator)
            clients.append(client_of(x, y, name=f"c{i}", validation=(x[:3], y[:3])))
        return clients

    return make


class TestLayers:
    def test_convolutions_have_scores_and_all_else_follows(self):
        beliefs = stack([belief_of(Net())])
        layers = scored(beliefs, tuple(beliefs), "inherit")
        assert layers == ["z.weight", "b.weight"]
        leaders = led_by(tuple(beliefs), layers)
        assert leaders.keys() == beliefs.keys()
        assert leaders["shift"] is None
        after_z = {name for name, layer in leaders.items() if layer == "z.weight"}
        statistics = {f"norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
        assert after_z == {"z.weight", "z.bias", "norm.weight", "norm.bias", *statistics}
        after_b = {name for name, layer in leaders.items() if layer == "b.weight"}
        assert after_b == {"b.weight", "b.bias", "a.weight", "a.bias"}
        own = scored(beliefs, tuple(beliefs), "own")
        assert own == ["z.weight", "b.weight", "a.weight"]
        assert led_by(tuple(beliefs), own)["a.bias"] == "a.weight"
        flat = stack([belief_of(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))])
        assert scored(flat, tuple(flat), "inherit") == ["0.weight", "2.weight"]

    def test_each_tensor_is_mixed_by_the_weights_of_its_leader(self, pictures, net_of, play, start_of):
        module, method = Net(), Guided(SGD(batch=4), metric="update-norm", zeta=50.0)
        net, start = net_of(module, pictures()), start_of(module)
        states, infos = play(method, net, start, 1)
        told = infos[0].extras["layer_weights"]
        assert list(told) == ["z.weight", "b.weight"]
        replies = net.visit(method.local, start, from_server(torch.arange(3)), Key(0).at_round(1, 1))
        opened, plain = net.open(replies.beliefs), [6 / 29, 9 / 29, 14 / 29]
        by_name = {"shift": plain, "norm.running_var": told["z.weight"], "z.bias": told["z.weight"]}
        by_name |= {"b.weight": told["b.weight"], "a.weight": told["b.weight"]}
        for name, weights in by_name.items():
            by_hand = sum(w * t for w, t in zip(weights, opened[name], strict=True))
            torch.testing.assert_close(states[1].beliefs.tensors[name][0], by_hand, rtol=1e-5, atol=1e-6)
        assert max(abs(z - b) for z, b in zip(*told.values(), strict=True)) > 0.01
        sizes = {n: t.numel() for n, t in start.tensors.items() if t.is_floating_point()}
        leaders = led_by(start.names, list(told))
        mean = sum(
            size * torch.tensor(plain if leaders[n] is None else told[leaders[n]], dtype=torch.float64)
            for n, size in sizes.items()
        ) / sum(sizes.values())
        torch.testing.assert_close(infos[0].weights, mean.expand(3, 3))

    def test_a_run_that_goes_on_from_a_checkpoint_knows_which_layer_is_which(
        self, pictures, net_of, play, tmp_path
    ):
        module, method = Net(), Guided(SGD(batch=4), metric="update-norm*stable-rank", linear="own", raw=True)
        net = net_of(module, pictures())
        states, infos = play(method, net, module, 2)
        checkpoint.save(tmp_path / "state", states[1], checkpoint.Stamp(1, "x"))
        restored = checkpoint.load(tmp_path / "state", State, "x").state
        after, info = method.round(restored, net, Key(0).at_round(2, 2))
        assert info.extras == infos[1].extras
        assert list(info.extras["layer_weights"]) == ["z.weight", "b.weight", "a.weight"]
        assert torch.equal(after.alpha, states[2].alpha)
        for name, tensor in states[2].beliefs.tensors.items():
            assert torch.equal(after.beliefs.tensors[name], tensor)


class TestFedAvgWithin:
    @pytest.mark.parametrize(("model", "weighted"), [("net", True), ("mlp", False)])
    def test_a_constant_metric_is_federated_averaging_bit_for_bit(
        self, pictures, crowd, net_of, play, model, weighted
    ):
        module = Net() if model == "net" else nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        clients, work = pictures() if model == "net" else crowd(), SGD(batch=4, momentum=0.5, keep=True)
        methods = Guided(work, metric="constant", weighted=weighted), FedAvg(work, weighted=weighted)
        (guided, told), (plain, known) = (play(m, net_of(module, clients), module, 2) for m in methods)
        for name, tensor in plain[-1].beliefs.tensors.items():
            assert torch.equal(guided[-1].beliefs.tensors[name], tensor)
        torch.testing.assert_close(told[-1].weights, known[-1].weights)
        assert torch.equal(told[-1].loss, known[-1].loss)

    @pytest.mark.parametrize("options", [{"beta": 0.0, "metric": "constant"}, {"zeta": 0.0}])
    def test_so_it_is_with_absences_where_nothing_is_remembered_or_nothing_is_added(
        self, crowd, net_of, play, without, options
    ):
        # ζ = 0: all α fall alike only if all are always there, so memory is kept whole
        options = {"beta": 1.0, **options}
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        net = without(net_of(module, crowd()), {1: (0,), 2: (1, 2)})
        guided, _ = play(Guided(SGD(batch=4), sample=0.7, **options), net, module, 3)
        plain, _ = play(FedAvg(SGD(batch=4), sample=0.7), net, module, 3)
        for name, tensor in plain[-1].beliefs.tensors.items():
            assert torch.equal(guided[-1].beliefs.tensors[name], tensor)

    def test_presets(self):
        assert METHODS.make("fedkg") == FedKG(metric="knowledge-gain", beta=0.8, zeta=1.0, floor=1e-3)
        assert METHODS.make("fedunique") == FedUnique(metric="uniqueness", beta=0.8, zeta=1.0, floor=1e-3)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "kind", "message"),
        [
            ({"beta": math.nan}, BadInput, "beta=nan must lie between 0 and 1"),
            ({"zeta": math.inf}, BadInput, "zeta=inf must be finite"),
            ({"floor": 0.0}, BadInput, "floor=0.0 must be above 0"),
            ({"sample": 0.0}, BadInput, "sample=0.0 must lie above 0"),
            (
                {"metric": "uniquenes"},
                UnknownName,
                "unknown layer metric 'uniquenes': did you mean uniqueness?",
            ),
            ({"linear": "x"}, UnknownName, "unknown linear 'x': known are inherit, own"),
        ],
    )
    def test_options(self, options, kind, message):
        with pytest.raises(kind, match=message):
            Guided(**options)

    def test_a_model_without_a_matrix(self, pull):
        start = {"scale": torch.ones(1, 4), "steps": torch.ones(1, 2, 2, dtype=torch.int64)}
        with pytest.raises(BadInput, match=r"no matrix .* so there is no layer to measure: use fedavg"):
            Guided().check(pull([1, 2]).roster, start, Key(0))

    @pytest.mark.parametrize(
        ("scores", "message"),
        [
            ([1.0, math.nan], "got a score of nan: return finite numbers"),
            ([1.0], r"got scores of shape \[1\] for 2 clients: return \[2\]"),
            ([-1.0, -2.0], "got negative scores only, the highest -1: turn the sign, or say signed=True"),
        ],
    )
    def test_a_metric_that_says_nonsense_is_named_with_the_layer(
        self, registry, corner, play, scores, message
    ):
        layer_metric("nonsense")(lambda layer: torch.tensor(scores))
        with pytest.raises(BadInput, match=f"layer metric 'nonsense', layer 'weight': {message}"):
            play(Guided(HALF, "nonsense"), corner([0, 6], [1, 3]), START, 1)

    def test_validation_loss_needs_validation_samples(self, corner):
        net = corner([0, 6], [1, 3])
        with pytest.raises(BadInput, match=r"client 'c0' has no validation samples.*take another metric"):
            Guided(HALF, "validation-loss").check(net.roster, START, Key(0))


def test_runs_in_one_line_and_shows_its_layers(crowd, tmp_path):
    result = coterie.train("mlp", crowd((30, 40, 20)), method="fedunique", raw=True, rounds=2, seed=0)
    told = [m["extras"]["layer_weights"] for m in result.record.metrics[1:]]
    assert len(told) == 2
    assert all(sum(shares) == pytest.approx(1) for layers in told for shares in layers.values())
    page = result.report(tmp_path / "report.html").read_text()
    assert "Layer by layer" in page


def test_the_metric_of_the_docs_page_runs_through_compare(registry, tmp_path, monkeypatch, capsys):
    registry._known.pop("spread", None)
    page = (Path(__file__).parents[2] / "docs" / "methods" / "guided.md").read_text()
    monkeypatch.chdir(tmp_path)
    code = re.search(r"^```python file=own_metric.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    Path("own_metric.py").write_text(code)
    (command,) = [line for line in page.splitlines() if "--plugins own_metric.py" in line]
    words = shlex.split(command)[1:]
    few = ["--seeds", "1", "--rounds", "1", "--out", "out"]
    assert main([*words[: words.index("--seeds")], *few]) == 0
    records = [read_record(file.parent) for file in Path("out").rglob("run.json")]
    metrics = {record.config.get("guided", {}).get("metric") for record in records}
    assert metrics == {None, "spread", "spread*uniqueness"}
    assert main(["resume", "out"]) == 0
    assert main(["run", "--data", "digits", "--method", "guided", "--guided.metric", "spred"]) == 2
    assert "unknown layer metric 'spred': did you mean spread?" in capsys.readouterr().err
