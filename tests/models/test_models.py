"""Every model: its size, its shapes, its seed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput, UnknownName
from coterie.models import MODELS, Mlp, ResNet18, count_parameters


def resnet18_size(width: int, channels: int, outputs: int) -> int:
    """Convolutions, the two numbers of each normalised channel, and the head."""
    total = 9 * channels * width + 2 * width
    total += 2 * (2 * 9 * width**2 + 2 * 2 * width)
    for made in (2 * width, 4 * width, 8 * width):
        halved = 9 * (made // 2) * made + 9 * made**2 + (made // 2) * made + 3 * 2 * made
        total += halved + 2 * 9 * made**2 + 2 * 2 * made
    return total + (8 * width + 1) * outputs


SIZES = [
    ("logistic", {}, (9,), 2, 9 * 2 + 2),
    ("logistic", {}, (1, 28, 28), 10, 7_850),
    ("linear", {}, (10,), 1, 11),
    ("mlp", {}, (1, 8, 8), 10, 64 * 64 + 64 + 64 * 10 + 10),
    ("mlp", {"hidden": (5, 3), "activation": "tanh"}, (4,), 2, 25 + 18 + 8),
    ("erosion-cnn", {}, (1, 28, 28), 10, 356_234),
    ("erosion-cnn", {}, (1, 8, 8), 10, 320 + 18_496 + 73_856 + 128 * 128 + 128 + 1_290),
    ("pens-cnn", {}, (3, 32, 32), 10, 73_418),
    ("pens-cnn", {}, (1, 22, 22), 10, 320 + 18_496 + 36_928 + 64 * 64 + 64 + 650),
    ("lenet5", {}, (1, 28, 28), 10, 61_706),
    ("lenet5", {}, (1, 32, 32), 10, 61_706),
    ("lenet5", {}, (3, 32, 32), 10, 62_006),
    ("lenet5", {}, (1, 12, 12), 10, 156 + 2_416 + 17 * 120 + 121 * 84 + 85 * 10),
    ("lenet5-small", {}, (1, 28, 28), 10, 5_142),
    ("lenet5-small", {}, (1, 16, 16), 10, 156 + 2_416 + 170),
    ("resnet18", {}, (3, 32, 32), 10, 11_173_962),
    ("resnet18", {"width": 16}, (3, 64, 64), 200, resnet18_size(16, 3, 200)),
    ("resnet18", {"width": 4, "norm": "group"}, (1, 8, 8), 3, resnet18_size(4, 1, 3)),
    ("resnet18", {"width": 8}, (3, 9, 12), 100, resnet18_size(8, 3, 100)),
]
NAMES = [f"{name}-{'x'.join(map(str, inputs))}-{i}" for i, (name, _, inputs, _, _) in enumerate(SIZES)]


def built(
    name: str, options: dict[str, object], inputs: tuple[int, ...], outputs: int, seed: int = 0
) -> nn.Module:
    return MODELS.make(name, **options).build(inputs, outputs, seed)


@pytest.mark.parametrize(("name", "options", "inputs", "outputs", "size"), SIZES, ids=NAMES)
def test_size_shape_and_gradients(
    name: str, options: dict[str, object], inputs: tuple[int, ...], outputs: int, size: int
) -> None:
    model = built(name, options, inputs, outputs)
    assert count_parameters(model) == size
    x = torch.randn(5, *inputs, generator=torch.Generator().manual_seed(0))
    out = model(x)
    assert out.shape == (5, outputs)
    assert list(dict(model.named_parameters()))[-2:] == ["head.weight", "head.bias"]
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    for parameter, p in model.named_parameters():
        assert p.grad is not None, parameter
        assert torch.isfinite(p.grad).all(), parameter
        assert p.grad.abs().sum() > 0, parameter


@pytest.mark.parametrize("name", list(MODELS))
def test_the_seed_decides_and_the_global_generator_is_left_alone(name: str) -> None:
    outputs = 1 if name == "linear" else 3
    options = {"width": 4} if name == "resnet18" else {}
    before = torch.get_rng_state()
    one, same, other = (built(name, options, (1, 28, 28), outputs, seed).state_dict() for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[k], same[k]) for k in one)
    assert not torch.equal(one["head.weight"], other["head.weight"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        again = built(name, options, (1, 28, 28), outputs, 7).state_dict()
    assert all(torch.equal(one[k], again[k]) for k in one)


@pytest.mark.parametrize(
    ("name", "smallest"), [("pens-cnn", 22), ("lenet5", 12), ("lenet5-small", 16), ("resnet18", 8)]
)
def test_pictures_that_are_too_small_are_refused(name: str, smallest: int) -> None:
    options = {"width": 4} if name == "resnet18" else {}
    below, enough = smallest - 1, smallest
    with pytest.raises(
        BadInput, match=f"{name} needs pictures of at least {smallest}x{smallest}; got 40x{below}"
    ):
        built(name, options, (1, 40, below), 10)
    assert built(name, options, (1, 40, enough), 10)(torch.zeros(2, 1, 40, enough)).shape == (2, 10)


def test_other_mistakes_are_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"needs pictures .* got inputs of shape \(9,\): use mlp or logistic"):
        built("erosion-cnn", {}, (9,), 2)
    with pytest.raises(BadInput, match="at least 2 classes; got outputs=1: use linear"):
        built("logistic", {}, (9,), 1)
    with pytest.raises(BadInput, match="got outputs=3: use logistic"):
        built("linear", {}, (9,), 3)
    with pytest.raises(BadInput, match=r"inputs of shape \(\) are empty"):
        built("mlp", {}, (), 3)
    with pytest.raises(BadInput, match="outputs=0 must be at least 1"):
        built("mlp", {}, (3,), 0)
    with pytest.raises(BadInput, match=r"hidden=\(\) must be one or more"):
        Mlp(hidden=())
    with pytest.raises(BadInput, match=r"hidden=\(8, 0\)"):
        Mlp(hidden=(8, 0))
    with pytest.raises(UnknownName, match="did you mean relu"):
        Mlp(activation="rely")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="width=2 must lie between 4 and 1024"):
        ResNet18(width=2)
    with pytest.raises(UnknownName, match="did you mean batch"):
        ResNet18(norm="btach")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="did you mean lenet5"):
        MODELS.make("lenet")


def test_the_layers_of_the_papers() -> None:
    """gengler-2020: 2048-128-10; karlsson-2021, Table 3.1: 16,448 and 650; makni-2022: 256-10."""
    erosion = built("erosion-cnn", {}, (1, 28, 28), 10)
    assert erosion.get_submodule("hidden").weight.shape == (128, 2048)  # type: ignore[union-attr]
    pens = built("pens-cnn", {}, (3, 32, 32), 10)
    sizes = {
        name: count_parameters(layer) for name, layer in pens.named_children() if count_parameters(layer)
    }
    assert sizes == {"conv1": 896, "conv2": 18_496, "conv3": 36_928, "hidden": 16_448, "head": 650}
    small = built("lenet5-small", {}, (1, 28, 28), 10)
    assert small.get_submodule("head").weight.shape == (10, 256)  # type: ignore[union-attr]


def test_group_norm_answers_alike_whatever_else_is_in_the_batch() -> None:
    model = built("resnet18", {"width": 4, "norm": "group"}, (1, 8, 8), 3)
    assert not list(model.buffers())
    x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x)[:1], model(x[:1]))


@pytest.mark.parametrize("name", ["logistic", "mlp", "erosion-cnn", "pens-cnn", "lenet5", "lenet5-small"])
def test_models_run_under_vmap_as_the_stacked_engine_needs(name: str) -> None:
    models = [built(name, {}, (1, 28, 28), 3, seed) for seed in range(2)]
    params, buffers = torch.func.stack_module_state(models)
    x = torch.randn(2, 4, 1, 28, 28, generator=torch.Generator().manual_seed(0))

    def one(p: dict[str, torch.Tensor], b: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.func.functional_call(models[0], (p, b), (x,))
        return out

    together = torch.func.vmap(one)(params, buffers, x)
    apart = torch.stack([m(rows) for m, rows in zip(models, x, strict=True)])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "shape"), [("pens-cnn", (3, 32, 32)), ("lenet5", (1, 28, 28))])
def test_pooling_before_the_rectifier_gives_the_bits_of_the_papers_order(name, shape):
    ours = MODELS.make(name).build(shape, 10, seed=3)
    layers = dict(ours.named_children())
    order = list(layers)
    for i in [i for i, layer in enumerate(order) if layer.startswith("pool")]:
        order[i : i + 2] = reversed(order[i : i + 2])
    paper = nn.Sequential(*(layers[layer] for layer in order))
    assert [type(layer) for layer in paper][1:3] == [nn.ReLU, nn.MaxPool2d]
    x, y = torch.randn(8, *shape), torch.arange(8)
    found = []
    for model in (ours, paper):
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in ours.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
