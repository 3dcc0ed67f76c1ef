"""Last-layer mode: what the server sees, what clients train, what is kept for other runs."""

import os
import re
import shutil
from collections import OrderedDict
from dataclasses import replace

import pytest
import tomli_w
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import coterie
from coterie.cli.main import main
from coterie.core import belief as tree
from coterie.core.client import Client, Samples
from coterie.core.errors import BadData, BadInput, BadRun, Diverged, UnknownName
from coterie.core.seeds import Key
from coterie.models import MODELS
from coterie.runs.artifacts import body_of, network_of, save_body
from coterie.runs.builder import prepare
from coterie.runs.folder import read_models
from coterie.runs.settings import Settings, from_table, read_toml
from coterie.sites import features
from coterie.sites.features import Features, divided, stage
from coterie.sites.last_layer import cut, last_linear

CPU = torch.device("cpu")
QUICK = Settings(
    data="digits",
    clients=3,
    validation=0.2,
    model="mlp",
    rounds=2,
    options={"mlp": {"hidden": [8]}},
    features=Features(epochs=2),
)
FLAGS = ["--data", "digits", "--clients", "3", "--rounds", "2", "--model", "mlp", "--mlp.hidden", "8"]
FLAGS += ["--features.epochs", "1"]


@pytest.fixture(autouse=True)
def store(tmp_path_factory, monkeypatch):
    """The folder of entries, empty at first."""
    home = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("COTERIE_DATA", str(home))
    return home / "features"


@pytest.fixture
def trainings(monkeypatch):
    """How often the server has trained, as the length of a list."""
    calls, real = [], features.pretrained

    def counted(*told):
        calls.append(told)
        return real(*told)

    monkeypatch.setattr(features, "pretrained", counted)
    return calls


def numbered(*sizes: int) -> list[Client]:
    """Clients with so many training, 5 validation and 5 test rows; each input is the row's own number."""
    made, after = [], 0
    for name, n in zip("abcdefgh", sizes, strict=False):
        x = torch.arange(after, after + n + 10, dtype=torch.float32)[:, None]
        train, validation, test = (Samples(part, part[:, 0].long() % 2) for part in x.split([n, 5, 5]))
        made.append(Client(name=name, train=train, validation=validation, test=test))
        after += n + 10
    return made


def rows(samples: Samples) -> list[float]:
    return samples.x[:, 0].tolist()


def sites(experiment) -> tuple[Client, ...]:
    return experiment.net.net.clients


def notes(experiment) -> list[str]:
    return [n for n in experiment.about["notes"] if n.startswith("features, ")]


def chain(*layers: nn.Module, **named: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict({**{str(i): layer for i, layer in enumerate(layers)}, **named}))


# --- numbers worked out by hand


def test_a_network_in_two():
    hidden, head = nn.Linear(1, 2), nn.Linear(2, 1)
    with torch.no_grad():
        hidden.weight.copy_(torch.tensor([[2.0], [-1.0]]))
        hidden.bias.copy_(torch.tensor([0.0, 1.0]))
    whole = chain(hidden=hidden, relu=nn.ReLU(), head=head)
    body = cut(whole, torch.ones(1, 1), "mine")
    assert (body.last, body.inputs, body.width, body.outputs) == ("head", (1,), 2, 1)
    x = torch.tensor([[3.0], [-1.0]])
    assert body.features(x).tolist() == [[6.0, 0.0], [0.0, 2.0]]  # relu(2x), relu(1 - x)
    assert torch.equal(body.with_last(head)(x), whole(x))
    assert body.features(x[:0]).shape == (0, 2)
    assert whole.head is head  # the model itself stays whole


def test_the_server_trains_at_rates_that_fall_on_a_log_scale(two_clients):
    """From w = b = 0 on (1, 2), (2, 4) in one batch, at 0.1 and then at 0.1 · 0.25^½ = 0.05:

    ∂w = 2 · mean(-2, -8) = -10, ∂b = 2 · mean(-2, -4) = -6                 w = 1, b = 0.6
    errors -0.4, -1.4:  ∂w = -0.4 - 2.8 = -3.2, ∂b = -0.4 - 1.4 = -1.8      w = 1.16, b = 0.69
    tests (1, 2), (2, 4), (3, 7): errors -0.15, -0.99, -2.83
    """
    model = nn.Linear(1, 1)
    beliefs = {"weight": torch.tensor([[[5.0]]]), "bias": torch.tensor([[7.0]])}
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    options = Features("clients", freeze=False, epochs=2, lr=0.1, lr_end=0.025)
    made = stage(options, two_clients()[:1], model, beliefs, Key(0), called="mine", device=CPU)
    assert made.beliefs["weight"].item() == pytest.approx(1.16)
    assert made.beliefs["bias"].item() == 7.0  # as it was drawn, not 0.69
    assert made.model.bias.item() == pytest.approx(0.69)
    alone = (((0.15**2) + 0.99**2 + 2.83**2) / 3) ** 0.5
    assert (
        f"features, the server's model alone: rmse {alone:.4g} on the test rows of all clients" in made.notes
    )


# --- who sees which rows


@given(
    sizes=st.lists(st.integers(2, 30), min_size=1, max_size=5),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 9),
)
def test_rows_are_the_servers_or_a_clients_never_both(sizes, share, seed):
    clients = numbered(*sizes)
    kept, server = divided(clients, share, Key(seed))
    for before, after in zip(clients, kept, strict=True):
        gone = set(rows(before.train)) - set(rows(after.train))
        assert gone == set(rows(before.train)) & set(rows(server.train))
        assert 1 <= len(gone) < len(before.train)
        assert (after.validation, after.test) == (before.validation, before.test)
    assert len(rows(server.train)) == len(set(rows(server.train)))
    assert set(rows(server.train)) <= {r for c in clients for r in rows(c.train)}
    assert rows(server.test) == [r for c in clients for r in rows(c.test)]
    assert torch.equal(server.train.y, server.train.x[:, 0].long() % 2)


def test_all_clients_rows_are_the_servers_where_asked(store):
    asked = replace(QUICK, features=Features("clients", epochs=1))
    with_server, without = prepare(asked, None), prepare(replace(QUICK, features=None), None)
    total = sum(len(c.train) for c in sites(without))
    assert [len(c.train) for c in sites(with_server)] == [len(c.train) for c in sites(without)]
    said = f"features, rows the server trained on: all {total} training rows of the clients, so data moved"
    assert notes(with_server)[0] == said
    clients = numbered(4, 6)
    kept, server = divided(clients, 0.0, Key(0))
    assert kept == clients
    assert rows(server.train) == [r for c in clients for r in rows(c.train)]


def test_what_is_set_aside_is_said():
    experiment, whole = prepare(QUICK, None), prepare(replace(QUICK, features=None), None)
    total, left = (sum(len(c.train) for c in sites(e)) for e in (whole, experiment))
    assert left == total - sum(round(0.2 * len(c.train)) for c in sites(whole))
    said = f"features, rows the server trained on: {total - left} of the clients' {total} training rows, "
    assert notes(experiment)[0] == f"{said}set aside; {left} stay with them"
    for part in ("validation", "test"):
        ys = [[getattr(c, part).y.tolist() for c in sites(e)] for e in (experiment, whole)]
        assert ys[0] == ys[1]


def test_a_client_that_is_left_with_one_class(refused):
    x, y = torch.arange(6.0)[:, None], torch.tensor([0, 0, 0, 0, 0, 1])
    lone = Client("a", Samples(x, y), Samples(x, y), Samples(x[:0], y[:0]))
    model = chain(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2))
    beliefs = tree.stack([tree.belief_of(model)])
    options = Features(aside=0.7, epochs=1)

    def one(seed, **more):
        return stage(options, [lone], model, beliefs, Key(seed), called="mine", device=CPU, **more)

    lost = [
        s for s in range(20) if len(divided([lone], 0.7, Key(s).at("features"))[0][0].train.y.unique()) == 1
    ]
    text = "client 'a' trains on one class only (0)"
    remedy = "at least 2 are needed: add samples, or allow it with one_class='allow'"
    with refused(BadData, f"with 0.7 of its training rows set aside, {text}, {remedy}"):
        one(lost[0])
    assert one(lost[0], one_class=True).notes[-1] == text


# --- what clients train


@pytest.mark.parametrize("init", ["common", "independent"])
def test_clients_train_a_fresh_last_layer_on_features(init):
    experiment = prepare(replace(QUICK, init=init), None)
    raw = prepare(replace(QUICK, features=None, init=init), None)
    assert isinstance(experiment.model, nn.Linear)
    assert {n: list(t.shape[1:]) for n, t in experiment.beliefs.items()} == {"weight": [10, 8], "bias": [10]}
    for name, tensor in experiment.beliefs.items():  # as they would be drawn without a server
        assert torch.equal(tensor, raw.beliefs[f"head.{name}"])
    for client, before in zip(sites(experiment), sites(raw), strict=True):
        assert torch.equal(client.test.x, experiment.body.features(before.test.x))
        assert torch.allclose(client.test.x, experiment.body.network(before.test.x))
        assert torch.equal(client.validation.x, experiment.body.features(before.validation.x))
        assert torch.equal(client.test.y, before.test.y)
    assert not torch.equal(experiment.body.network.hidden1.weight, raw.model.hidden1.weight)


@pytest.mark.parametrize(("init", "models"), [("common", 1), ("independent", 3)])
def test_without_freezing_clients_start_from_the_server_but_for_one_bias(store, init, models):
    settings = replace(QUICK, init=init, features=Features(epochs=2, freeze=False))
    experiment, raw = prepare(settings, None), prepare(replace(settings, features=None), None)
    (file,) = store.iterdir()
    server = features._read_entry(file).server
    assert tree.count(experiment.beliefs) == models
    for name, tensor in experiment.beliefs.items():
        expected = raw.beliefs[name] if name == "head.bias" else torch.stack([server[name]] * models)
        assert torch.equal(tensor, expected), name
    assert not torch.equal(server["head.bias"], raw.beliefs["head.bias"][0])
    assert experiment.body is None
    assert sites(experiment)[0].test.x.shape[1:] == (1, 8, 8)


@pytest.mark.parametrize("name", ["mlp", "lenet5", "pens-cnn", "resnet18"])
def test_every_model_with_hidden_layers_can_be_cut(name):
    options = {"width": 4} if name in ("resnet18", "pens-cnn") else {}
    model = MODELS.make(name, **options).build((1, 28, 28), 10, 0).eval()
    x = torch.rand(3, 1, 28, 28)
    body = cut(model, x[:2], name)
    with torch.no_grad():
        assert torch.allclose(model.head(body.features(x)), model(x), atol=1e-6)


def test_a_test_set_that_clients_share_is_shared_still():
    one, two = numbered(8, 8)
    two = replace(two, test=one.test)
    model = chain(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 2))
    beliefs = tree.stack([tree.belief_of(model)])
    made = stage(Features(epochs=1), [one, two], model, beliefs, Key(0), called="mine", device=CPU)
    assert made.clients[0].test is made.clients[1].test
    assert made.clients[0].train is not made.clients[1].train


# --- the cache


def test_runs_share_one_pretraining(trainings, store):
    first = prepare(QUICK, None)
    second = prepare(replace(QUICK, method="local", rounds=5, kernel="adam"), None)
    assert len(trainings) == len(list(store.iterdir())) == 1
    assert first.about["fingerprint"] == second.about["fingerprint"]
    assert re.fullmatch(r"features, the server's training: \d+\.\d s", notes(first)[-1])
    assert re.fullmatch(
        r"features, the server's training: \d+\.\d s spared, as the cache has it", notes(second)[-1]
    )
    assert notes(first)[:-1] == notes(second)[:-1]
    shutil.rmtree(store)
    for other in (second, prepare(QUICK, None)):  # the same bits with the cache and without it
        ours, theirs = tree.belief_of(first.body.network), tree.belief_of(other.body.network)
        assert all(torch.equal(ours[n], theirs[n]) for n in ours)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"validation": 0.1},
        {"options": {"mlp": {"hidden": [8], "activation": "tanh"}}},
        {"features": Features(epochs=1)},
    ],
)
def test_what_decides_the_features_has_an_entry_of_its_own(trainings, changed):
    prepare(QUICK, None)
    prepare(replace(QUICK, **changed), None)
    assert len(trainings) == 2


def test_modules_that_differ_in_their_forward_alone(trainings):
    class Net(nn.Module):
        def __init__(self, act) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(1, 3), nn.Linear(3, 2)
            self.act = act

        def forward(self, x):
            return self.last(self.act(self.first(x)))

    for act in (torch.relu, torch.tanh):
        model = Net(act)
        beliefs = tree.stack([tree.belief_of(model)])
        stage(Features(epochs=1), numbered(6), model, beliefs, Key(0), called="mine", device=CPU)
    assert len(trainings) == 2


@pytest.mark.parametrize("how", ["one byte", "no header"])
def test_a_damaged_entry_is_made_anew_and_said(trainings, store, how):
    first = prepare(QUICK, None)
    (file,) = store.iterdir()
    whole = file.read_bytes()
    bad = {"one byte": whole[:-1] + bytes([whole[-1] ^ 1]), "no header": b""}
    file.write_bytes(bad[how])
    second = prepare(QUICK, None)
    assert len(trainings) == 2
    assert notes(second)[-1].endswith("; what the cache had was damaged, and is replaced")
    assert second.about["fingerprint"] == first.about["fingerprint"]
    assert notes(prepare(QUICK, None))[-1].endswith("spared, as the cache has it")


def test_a_cache_that_cannot_be_written_is_done_without(store):
    store.write_text("in the way")
    experiment = prepare(QUICK, None)
    assert "; not kept for other runs: cannot write " in notes(experiment)[-1]


# --- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aside": 0.0}, "features: aside=0.0 must lie between 0 and 1: try 0.2"),
        ({"aside": 1.0}, "features: aside=1.0 must lie between 0 and 1: try 0.2"),
        ({"batch": 0}, "features: batch=0 must be at least 1: try 64"),
        ({"lr": 0.0}, "features: lr=0.0 must be above 0 and finite: try 0.1"),
        ({"lr": 0.001}, "features: lr_end=0.005 must be above 0 and at most lr=0.001: try 5e-05"),
        ({"lr_end": 0.0}, "features: lr_end=0.0 must be above 0 and at most lr=0.1: try 0.005"),
    ],
)
def test_options_out_of_bounds(refused, options, message):
    with refused(BadInput, message):
        Features(**options)


def test_names_nobody_knows(refused):
    with refused(UnknownName, "unknown features source 'asides': did you mean aside?"):
        Features(source="asides")
    with refused(UnknownName, "unknown option of features 'epoch': did you mean epochs?"):
        from_table({"features": {"epoch": 3}}, "my.toml")
    with refused(UnknownName, "unknown table in my.toml 'feature': did you mean features?"):
        from_table({"feature": {}}, "my.toml")


def test_models_that_cannot_be_cut(refused):
    x = torch.ones(2, 1)
    ends = "does not end with a linear layer, so it has no last layer to train by itself"
    let = "let it return what an nn.Linear gives, or leave features out"
    with refused(BadInput, f"model mine {ends}: {let}"):
        last_linear(chain(nn.Linear(1, 2), nn.LogSoftmax(dim=1)), x, "mine")
    single = "is a single layer, so there is nothing to freeze"
    use = "use one with hidden layers, such as mlp, or freeze=false"
    with refused(BadInput, f"model logistic {single}: {use}"):
        prepare(replace(QUICK, model="logistic", options={}), None)

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.first = nn.Linear(3, 3), nn.Linear(1, 3)

        def forward(self, x):
            return self.head(self.head(self.first(x)))

    assert last_linear(Twice(), x, "mine") == "head"  # the last to run, not the last to be defined
    more = "does more with its last layer 'head' than call it once"
    with refused(BadInput, f"model mine {more}: call it once, at the end, or use freeze=false"):
        cut(Twice(), x, "mine")


def test_a_client_with_nothing_to_spare(refused):
    told = "client 'b' has 1 training row(s), of which none can be set aside"
    with refused(BadInput, f"{told}: give it more, or take features source=clients"):
        divided(numbered(4, 1), 0.2, Key(0))


def test_a_server_that_diverges(store):
    settings = replace(QUICK, features=Features(epochs=3, lr=1e30))
    said = r"^features: epoch \d of the server gave numbers that are not finite: lower its lr=1e\+30$"
    with pytest.raises(Diverged, match=said):
        prepare(settings, None)
    assert not store.exists()


def test_a_method_that_cannot_work_is_refused_before_the_server_trains(trainings):
    settings = replace(QUICK, method="weight-erosion", options={"weight-erosion": {"requester": "nobody"}})
    with pytest.raises(UnknownName):
        prepare(settings, None)
    assert not trainings


# --- settings, flags, commands, resuming


def test_settings_there_and_back():
    settings = replace(QUICK, features=Features("clients", 0.3, False, 3, 0.2, 0.01, 16)).resolved()
    table = settings.table()
    assert list(table)[-1] == "features"
    assert from_table(table, "config").resolved() == settings
    assert from_table({"features": {}}, "config").features == Features()
    plain = Settings().resolved()  # without it there is no trace of it
    assert "features" not in tomli_w.dumps(plain.table())
    assert from_table(plain.table(), "config").resolved() == plain


def test_a_comparison_and_its_flags(tmp_path, monkeypatch, capsys, trainings):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *FLAGS, "--methods", "local", "fedavg", "--seeds", "2", "--out", "all"]) == 0
    assert len(trainings) == 2  # one for each seed
    assert main(["resume", "all"]) == 0
    assert (
        main(["run", "--config", "all/local/seed-0/config.toml", "--features.no-freeze", "--out", "b"]) == 0
    )
    table = read_toml(tmp_path / "b" / "config.toml")["features"]
    assert (table["freeze"], table["epochs"]) == (False, 1)
    capsys.readouterr()
    assert main(["run", "--data", "digits", "--features", "--out", "c"]) == 2
    assert capsys.readouterr().err.startswith("coterie: model logistic is a single layer")
    assert main(["run", "--help"]) == 0
    assert "--features.lr-end" in capsys.readouterr().out


@pytest.mark.parametrize("freeze", [True, False])
def test_a_run_that_was_cut_off_ends_the_same(run_in, same_run, tmp_path, store, freeze):
    settings = replace(
        QUICK,
        rounds=4,
        method="finetune",
        options={**QUICK.options, "finetune": {"tune": 2}},
        features=Features(epochs=1, freeze=freeze),
    )
    run_in(tmp_path / "whole", prepare(settings, None))
    run_in(tmp_path / "cut", prepare(settings, None), cut=2)
    shutil.rmtree(store)  # resuming does not need the cache
    run_in(tmp_path / "cut", prepare(settings, None))
    same_run(tmp_path / "cut", tmp_path / "whole")


# --- afterwards


def test_a_run_folder_predicts_on_raw_inputs(run_in, tmp_path):
    experiment, raw = prepare(QUICK, None), prepare(replace(QUICK, features=None), None)
    run_in(tmp_path / "run", experiment)
    save_body(tmp_path / "run", experiment.body)
    x, z = sites(raw)[1].test.x, sites(experiment)[1].test.x
    assert torch.equal(body_of(tmp_path / "run").features(x), z)
    own = read_models(tmp_path / "run")["client-1"]
    logits = network_of(tmp_path / "run", "client-1")(x)
    assert torch.allclose(logits, z @ own["weight"].T + own["bias"], atol=1e-6)


def test_a_folder_without_frozen_layers(refused, tmp_path):
    save_body(tmp_path, None)
    assert os.listdir(tmp_path) == []
    said = f"{tmp_path} has no features.safetensors: finish the run, or it froze no layers"
    with refused(BadRun, said):
        body_of(tmp_path)


def test_from_python_with_a_module_of_ones_own(tmp_path, refused):
    clients = numbered(30, 20)
    model = chain(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    first = tree.belief_of(model)
    out = tmp_path / "run"
    table = {"epochs": 2, "lr": 0.01}
    result = coterie.train(model, clients, rounds=2, features=table, out=out, lr=0.01)
    assert all(torch.equal(t, first[n]) for n, t in tree.belief_of(model).items())
    taken = "10 of the clients' 50 training rows, set aside; 40 stay with them"
    assert f"features, rows the server trained on: {taken}" in result.notes
    x = clients[0].test.x.double()
    save_body(out, _body_in(model, clients, table))
    assert torch.equal(network_of(out, "a", model)(x), result.models["a"](x))
    assert result.models["a"](x).shape == (5, 2)
    assert result.shared is not None
    with refused(BadRun, f"{out} trained a module of your own, a Sequential: give it as model="):
        body_of(out)
    with refused(UnknownName, "unknown client 'c': known are a, b"):
        network_of(out, "c", model)
    again = coterie.train(model, clients, rounds=2, features=Features(**table, lr_end=0.005), lr=0.01)
    assert torch.equal(again.models["a"](x), result.models["a"](x))


def test_resuming_from_python_finds_the_same_features_again(tmp_path, store, monkeypatch):
    clients, model = numbered(30, 20), chain(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2))

    def train(out, **more):
        options = {"rounds": 3, "features": {"epochs": 1, "lr": 0.01}, "lr": 0.01, "out": out}
        return coterie.train(model, clients, **options, **more)

    def stop(seen):
        if seen.round == 1:
            raise KeyboardInterrupt

    train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", watch=stop)
    shutil.rmtree(store)
    with monkeypatch.context() as changed:
        changed.setattr(features, "VERSION", features.VERSION + 1)
        changed.setattr(Features, "work", lambda self: features.SGD(lr=0.02))
        with pytest.raises(BadRun, match="belongs to another config, model or data"):
            train(tmp_path / "cut", resume=True)
    train(tmp_path / "cut", resume=True)
    for file in ("metrics.jsonl", "models.safetensors"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def _body_in(model, clients, table):
    beliefs = tree.stack([tree.belief_of(model)])
    cast = [c.cast(torch.float64) for c in clients]
    return stage(Features(**table), cast, model, beliefs, Key(0), called="mine", device=CPU).body
