"""A loss, metrics and local work of one's own: alike on every engine, told by name, refused in one line."""

from __future__ import annotations

import functools
import json
import logging
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import coterie
from coterie.core.errors import BadInput, BadRun
from coterie.data.clients import Client
from coterie.kernels.local import LocalWork
from coterie.report.summary import cells, legend

ENGINES = ("stacked", "pool", "auto")


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 2)


def focal(outputs, y):
    plain = F.cross_entropy(outputs, y, reduction="none")
    return (1 - torch.exp(-plain)).square() * plain


def hinge(outputs, y):
    right = outputs.gather(1, y.unsqueeze(1))
    return F.relu(1 + outputs - right).sum(dim=1) - 1


def branching(outputs, y):
    """Has no batched form."""
    plain = F.cross_entropy(outputs, y, reduction="none")
    return plain * 2 if float(outputs.detach().abs().max()) >= 0 else plain


def doubled(outputs, y):
    return 2 * F.cross_entropy(outputs, y, reduction="none")


def usual(outputs, y):
    return F.cross_entropy(outputs, y, reduction="none")


def share_of_ones(p, y):
    return (p[:, 1] > 0.5).double().mean()


def wrong(p, y):
    return np.mean(p.argmax(1).numpy() != y.numpy())


def flat(result) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for m in result.models.values() for p in m.parameters()])


def train(clients, **options):
    return coterie.train(
        linear(), clients, **{"rounds": 3, "batch": 8, "lr": 0.3, "progress": False} | options
    )


# a loss


@pytest.mark.parametrize(("method", "loss"), [("fedavg", focal), ("local", hinge)])
def test_own_loss_trains_alike_on_every_engine(hospitals, loss, method):
    reference = train(hospitals, method=method, loss=loss, engine="loop")
    assert not torch.allclose(
        flat(reference), flat(train(hospitals, method=method, engine="loop")), atol=1e-3
    )
    for engine in ENGINES:
        other = train(hospitals, method=method, loss=loss, engine=engine)
        torch.testing.assert_close(flat(other), flat(reference), rtol=1e-5, atol=1e-6)


def test_own_loss_takes_the_steps_of_torch(hospitals):
    client = hospitals[0]
    plain = linear()
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.3)
    for _ in range(3):
        optimiser.zero_grad()
        focal(plain(client.train.x), client.train.y).mean().backward()
        optimiser.step()
    (made,) = train([client], method="local", loss=focal, batch=100).models.values()
    torch.testing.assert_close(made.weight, plain.weight, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(made.bias, plain.bias, rtol=1e-5, atol=1e-6)


def test_the_cross_entropy_given_as_a_function_is_the_usual_training(hospitals):
    for engine in ("loop", *ENGINES):
        mine, theirs = (train(hospitals, engine=engine, loss=loss) for loss in (usual, None))
        torch.testing.assert_close(flat(mine), flat(theirs), rtol=1e-5, atol=1e-6)


def test_own_loss_is_recorded_as_programs_and_what_has_no_batched_form_goes_client_by_client(
    hospitals, caplog, monkeypatch
):
    from coterie.engines import replay

    made = []
    program = replay.program
    monkeypatch.setattr(replay, "program", lambda *given: made.append(program(*given)) or made[-1])
    train(hospitals, loss=focal, engine="stacked")
    assert made
    with caplog.at_level(logging.INFO, logger="coterie"):
        found = train(hospitals, loss=branching)
    assert "engine pool for 3 edge(s): the model has operations that have no batched form" in caplog.text
    torch.testing.assert_close(flat(found), flat(train(hospitals, loss=doubled)), rtol=1e-5, atol=1e-6)


def test_loss_is_the_own_one_everywhere_and_nll_stays_what_it_is(hospitals):
    result = train(hospitals, method="local", loss=doubled)
    models = [result.models[c.name] for c in hospitals]
    with torch.no_grad():
        by_hand = [
            float(doubled(m(c.test.x), c.test.y).mean()) for m, c in zip(models, hospitals, strict=True)
        ]
    assert result.record.final("loss") == pytest.approx(by_hand, rel=1e-5)
    assert result.record.final("nll") == pytest.approx([v / 2 for v in by_hand], rel=1e-5)
    assert "loss" in cells([result.record])[0]
    assert "loss" not in cells([train(hospitals).record])[0]
    assert result.notes[-1] == (
        "trained by a loss of your own: doubled instead of the cross-entropy; accuracy, NLL and calibration "
        "are as ever"
    )


def test_pens_scores_models_by_the_own_loss(hospitals):
    options = {"method": "pens", "rounds": 1, "lr": 1e-9}
    own, plain = (train(hospitals, loss=loss, **options) for loss in (doubled, usual))
    (name,) = (n for n in own.matrices if "loss" in n)
    known = ~np.isnan(plain.matrices[name])
    assert known.any()
    np.testing.assert_allclose(own.matrices[name][known], 2 * plain.matrices[name][known], rtol=1e-5)


def test_a_far_loss_of_ones_own_is_no_alarm(hospitals, recwarn):
    result = train(hospitals, loss=lambda outputs, y: 1000 * usual(outputs, y), lr=1e-4)
    assert min(result.record.final("loss")) > 100
    assert not [w for w in recwarn if issubclass(w.category, coterie.CoterieWarning)]


def test_regression_by_the_absolute_error():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    y = X @ np.array([2.0, -1.0]) + 0.5
    y[::10] += 50  # outliers, which the squared error follows
    clients = [Client.from_arrays(X[:30], y[:30], name="a"), Client.from_arrays(X[30:], y[30:], name="b")]

    def absolute(outputs, y):
        return (outputs.squeeze(1) - y).abs()

    def median_error(predicted, y):
        return (predicted - y).abs().median()

    found = [
        coterie.train(
            "linear", clients, rounds=80, loss=loss, metrics={"median": median_error}, lower=["median"]
        )
        for loss in (absolute, None)
    ]
    near, far = (np.mean(r.record.final("median")) for r in found)
    assert near < 0.5 < far
    assert found[0].record.config["loss"] == "absolute"


def test_names_of_functions_objects_and_partials(hospitals):
    def weighted(outputs, y, by):
        return by * usual(outputs, y)

    cases = {
        "weighted": functools.partial(weighted, by=2.0),
        "CrossEntropyLoss": nn.CrossEntropyLoss(reduction="none"),
    }
    for name, loss in cases.items():
        assert train(hospitals, loss=loss, rounds=1).record.config["loss"] == name


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (
            F.cross_entropy,
            "loss 'cross_entropy' gave one number for outputs [4, 2] and y [4]: it must give one number for "
            "each row, [4]; losses of torch do with reduction='none'",
        ),
        (
            lambda outputs, y: outputs,
            "loss '<lambda>' gave [4, 2] for outputs [4, 2] and y [4]: it must give one",
        ),
        (
            lambda outputs, y: 3.0,
            "loss '<lambda>' gave float for outputs [4, 2] and y [4]: it must give one number",
        ),
        (
            lambda outputs, y: (outputs.argmax(1) != y).float(),
            "loss '<lambda>' has no gradient: work on outputs with operations of torch alone, without "
            ".item(), .detach(), argmax or numpy",
        ),
        (
            lambda outputs, y: usual(outputs, y) - usual(outputs, y).mean(),
            "loss '<lambda>' gives a row another number when other rows are beside it: work on each row by "
            "itself",
        ),
        (
            lambda outputs, y: usual(outputs, y) * torch.rand(len(y)),
            "loss '<lambda>' draws random numbers, so no run could be repeated: leave them out",
        ),
        (
            lambda outputs, y: usual(outputs, y) * math.inf,
            "loss '<lambda>' gave inf on the first model's outputs: keep it finite",
        ),
        (
            lambda outputs, y: usual(outputs, y.float()),
            "loss '<lambda>' failed on outputs [4, 2] and y [4] (RuntimeError: ",
        ),
        (
            "mse",
            "loss='mse' must be a function of outputs [n, ...] and y [n] that gives one number for each row "
            "[n], or None for the usual loss: see docs/own-parts.md",
        ),
        (
            nn.CrossEntropyLoss,
            "loss=<class 'torch.nn.modules.loss.CrossEntropyLoss'> must be a function of outputs",
        ),
    ],
)
def test_bad_losses_are_refused_before_anything_is_written(hospitals, loss, said, tmp_path):
    for call in (coterie.train, functools.partial(coterie.compare, seeds=1)):
        with pytest.raises(BadInput) as caught:
            call(linear(), hospitals, rounds=2, loss=loss, out=tmp_path / "out")
        assert str(caught.value).startswith(said)
        assert len(str(caught.value).splitlines()) == 1
        assert not (tmp_path / "out").exists()


# metrics


def test_metrics_in_history_summary_tables_report_and_record(hospitals, tmp_path):
    metrics = {"ones": share_of_ones, "wrong": wrong}
    found = coterie.compare(
        linear(), hospitals, ["local", "fedavg"], seeds=2, rounds=2, metrics=metrics, lower={"wrong"},
        out=tmp_path / "out",
    )  # fmt: skip
    for results in found.results.values():
        for result in results:
            accuracy = result.record.final("accuracy")
            assert result.record.final("wrong") == pytest.approx([1 - a for a in accuracy])
            history = result.history
            assert {"ones", "wrong"} <= set(history[history["split"] == "validation"]["metric"])
            assert result.record.config["metrics"] == {"ones": "higher", "wrong": "lower"}
    line = found.summary().set_index("method").loc["fedavg"]
    assert line["wrong"] == pytest.approx(1 - line["accuracy"])
    assert line["worst_wrong"] == pytest.approx(1 - line["worst_accuracy"])
    assert line["gain_wrong"] == pytest.approx(line["gain"])
    header, rows = cells(found.records)
    assert header[4:6] == ["ones", "wrong"]
    assert rows[0][5].startswith(f"{1 - found.summary()['accuracy'][0]:.3f}")
    assert "wrong: lower is better." in legend(found.records)
    assert "test wrong" in found.report(tmp_path / "page.html").read_text()
    (first, *_) = (tmp_path / "out" / "local" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    assert set(json.loads(first)["scores"]["own/test"]) >= {"ones", "wrong"}


def test_a_metric_is_of_each_clients_own_rows(hospitals):
    seen = []

    def rows(p, y):
        seen.append((tuple(p.shape), p.dtype, torch.allclose(p.sum(1), torch.ones(len(p), dtype=p.dtype))))
        y.zero_()  # its own copy
        return len(y)

    result = train(hospitals, metrics={"rows": rows}, rounds=1)
    assert result.record.final("rows") == [len(c.test) for c in hospitals]
    assert {s[1:] for s in seen} == {(torch.float64, True)}
    assert all(int(c.test.y.sum()) > 0 for c in hospitals)


def test_a_metric_that_is_not_defined_is_no_figure(hospitals):
    def sometimes(p, y):
        return math.nan if len(y) == len(hospitals[0].test) else 1.0

    result = train(hospitals, metrics={"sometimes": sometimes}, rounds=1)
    figures = result.record.final("sometimes")
    assert math.isnan(figures[0])
    assert figures[1:] == [1.0, 1.0]
    assert result.summary()["sometimes"][0] == 1.0


def test_metrics_of_averaged_predictions(hospitals):
    result = coterie.train(linear(), hospitals, "bayavg", rounds=1, metrics={"wrong": wrong}, lower=["wrong"])
    assert result.record.final("wrong") == pytest.approx([1 - a for a in result.record.final("accuracy")])


def test_figures_do_not_depend_on_metrics(hospitals):
    with_one, without = (train(hospitals, metrics=m).record.metrics for m in ({"wrong": wrong}, None))
    for entry in with_one:
        for scores in entry["scores"].values():
            scores.pop("wrong", None)
    assert with_one == without


def undefined(p, y):
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"metrics": {"f1": undefined}},
            "metric 'f1' failed on the 12 test rows of client 'hospital-a' (ZeroDivisionError: division by "
            "zero): it gets probabilities [n, class] and y [n], and must give one number, float('nan') where "
            "there is none",
        ),
        (
            {"metrics": {"f1": lambda p, y: p}},
            "metric 'f1' gave [12, 2]: it gets probabilities [n, class] and y",
        ),
        (
            {"metrics": {"f1": lambda p, y: "high"}},
            "metric 'f1' gave str: it gets probabilities [n, class] and y",
        ),
        (
            {"metrics": {"accuracy": wrong}},
            "metric 'accuracy' has a name that summaries use already: try 'my_accuracy'",
        ),
        (
            {"metrics": {"": wrong}},
            "metric '' must have a name of at most 40 letters, digits, spaces, - or _, a letter first: try "
            "'f1'",
        ),
        ({"metrics": [wrong]}, "metrics=[<function wrong at"),
        ({"metrics": {"f1": 3}}, "metrics={'f1': 3} must be functions by name: try {'f1': my_f1}"),
        (
            {"metrics": {"f1": wrong}, "lower": ["f2"]},
            "lower names 'f2', which is no metric of yours ('f1'): name it in metrics too",
        ),
        (
            {"metrics": {"f1": wrong}, "lower": "f1"},
            "lower='f1' must be names of your metrics of which less is better: try ['cost']",
        ),
    ],
)
def test_bad_metrics_are_refused_before_anything_is_written(hospitals, options, said, tmp_path):
    for call in (coterie.train, functools.partial(coterie.compare, seeds=1)):
        with pytest.raises(BadInput) as caught:
            call(linear(), hospitals, rounds=2, out=tmp_path / "out", **options)
        assert str(caught.value).startswith(said)
        assert len(str(caught.value).splitlines()) == 1
        assert not (tmp_path / "out").exists()


def test_a_metric_that_fails_later_says_so_in_one_line_and_the_run_goes_on_once_it_is_mended(
    hospitals, tmp_path
):
    calls = []

    def now_and_then(p, y):
        calls.append(len(y))
        return 1 / (len(calls) < 20)

    with pytest.raises(BadInput, match=r"^metric 'mine' failed on \d+ (test|validation) rows \(ZeroDivision"):
        train(hospitals, metrics={"mine": now_and_then}, rounds=9, out=tmp_path / "out")
    result = train(hospitals, metrics={"mine": wrong}, rounds=9, out=tmp_path / "out", resume=True)
    assert result.record.finished


# what is told of them


def test_going_on_needs_functions_of_the_same_names(hospitals, tmp_path):
    class Cut(Exception):
        pass

    def cut(record):
        if record.round == 1:
            raise Cut

    mine = {"loss": focal, "metrics": {"wrong": wrong}, "lower": ["wrong"]}
    with pytest.raises(Cut):
        train(hospitals, out=tmp_path / "out", watch=cut, **mine)
    for other in ({"loss": hinge}, {"loss": None}, {"metrics": {"other": wrong}, "lower": []}, {"lower": []}):
        with pytest.raises(BadRun, match="belongs to another config"):
            train(hospitals, out=tmp_path / "out", resume=True, **mine | other)
    result = train(hospitals, out=tmp_path / "out", resume=True, **mine)
    assert torch.equal(flat(result), flat(train(hospitals, **mine)))


def test_a_comparison_goes_on_with_the_same_names_alone(hospitals, tmp_path):
    def again(**own):
        return coterie.compare(
            linear(), hospitals, ["local"], seeds=1, rounds=1, out=tmp_path / "out", resume=True, **own
        )

    again(loss=focal)
    with pytest.raises(BadRun, match="holds something else than this comparison"):
        again(loss=hinge)
    assert again(loss=focal).records[0].finished


def test_code_never_crosses_a_wire(hospitals):
    for own, said in (
        ({"loss": focal}, "loss 'focal'"),
        ({"metrics": {"wrong": wrong}}, "metric 'wrong'"),
        ({"loss": focal, "metrics": {"wrong": wrong}}, "loss 'focal', metric 'wrong'"),
    ):
        with pytest.raises(BadInput) as caught:
            coterie.train("logistic", hospitals, rounds=1, net="processes", **own)
        assert str(caught.value) == (
            f"net processes sends names to its sites and never code, so they cannot know {said}: take "
            "net='in-process'"
        )


def test_a_loss_that_changed_between_runs_is_not_taken_from_an_earlier_recording(hospitals):
    by = [1.0]

    def scaled(outputs, y):
        return by[0] * usual(outputs, y)

    def outcome():
        return flat(
            coterie.train("logistic", hospitals, rounds=2, engine="stacked", init="common", loss=scaled)
        )

    first = outcome()
    by[0] = 3.0
    assert not torch.allclose(outcome(), first, atol=1e-3)


# local work


@dataclass(frozen=True)
class Signs(LocalWork):
    """Steps by the sign of a mean gradient."""

    def memories(self):
        return ("mean",)

    def update(self, param, grad, memory, t, rate):
        mean = 0.9 * memory["mean"] + 0.1 * grad
        return param - rate.to(param.dtype) * torch.sign(mean), {"mean": mean}


def test_own_update_rule_on_every_engine(hospitals):
    def outcome(engine):
        made = coterie.train(
            linear(), hospitals, "local", rounds=3, kernel=Signs(lr=0.01, batch=8), engine=engine
        )
        assert made.record.config["kernel"] == "Signs"
        return flat(made)

    reference = outcome("loop")
    for engine in ENGINES:
        torch.testing.assert_close(outcome(engine), reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "kernel", [torch.optim.AdamW, torch.optim.AdamW([nn.Parameter(torch.zeros(1))]), Signs]
)
def test_an_optimiser_of_torch_is_refused_in_one_line(hospitals, kernel):
    for call in (coterie.train, coterie.compare):
        with pytest.raises(BadInput) as caught:
            call(linear(), hospitals, kernel=kernel)
        assert str(caught.value).endswith(
            "must be the name of local work (adam, adamw, bounded, constant, dp, hmc, newton, psgld, ridge, "
            "sgd, sgld, swag) or an object such as "
            "coterie.SGD(lr=0.1), not an optimiser of torch: try 'adamw', or write your own as "
            "docs/own-parts.md shows"
        )
        assert len(str(caught.value).splitlines()) == 1


def test_adamw_by_name(hospitals):
    by_name = train(hospitals, kernel="adamw", lr=0.01, weight_decay=0.3)
    same = coterie.Adam(lr=0.01, weight_decay=0.3, decoupled=True, batch=8)
    made = coterie.train(linear(), hospitals, rounds=3, kernel=same)
    assert torch.equal(flat(by_name), flat(made))
    assert by_name.record.config["adamw"]["weight_decay"] == 0.3
    assert "decoupled" not in by_name.record.config["adamw"]
