from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from coterie.core.dropout import SeededDropout, _scramble, uniform


def seeded(seed: int) -> torch.Tensor:
    return torch.tensor(seed, dtype=torch.int64)


def drop(x: torch.Tensor, seed: int = 1, p: float = 0.5, layer: type[nn.Module] = nn.Dropout) -> torch.Tensor:
    with SeededDropout(seeded(seed)):
        return layer(p).train()(x)


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(np.corrcoef(a.flatten().numpy(), b.flatten().numpy())[0, 1])


COUNT = 200 * 256
NOISE = 4 / COUNT**0.5  # four standard errors of a mean of that many


@pytest.fixture(scope="module", params=["consecutive", "random", "high word only"])
def draws(request) -> torch.Tensor:
    """[seed, position]"""
    seeds = {
        "consecutive": torch.arange(200),
        "random": torch.randint(2**62, (200,), generator=torch.Generator().manual_seed(0)),
        "high word only": torch.arange(200) << 32,
    }[request.param]
    return torch.stack([uniform(seed, 0, 256) for seed in seeds])


class TestUniform:
    """Nothing a dropout mask would notice: moments, neighbours, and each bin of a histogram."""

    def test_mean_and_variance(self, draws):
        assert bool(((draws >= 0) & (draws < 1)).all())
        assert abs(float(draws.mean()) - 1 / 2) < NOISE * (1 / 12) ** 0.5
        assert abs(float(draws.var()) - 1 / 12) < NOISE * (1 / 180) ** 0.5

    def test_neighbouring_positions_and_seeds_do_not_correlate(self, draws):
        assert abs(correlation(draws[:, :-1], draws[:, 1:])) < NOISE
        assert abs(correlation(draws[:-1], draws[1:])) < NOISE

    def test_every_twentieth_holds_a_twentieth(self, draws):
        counts = torch.histc(draws, 20, 0, 1)
        expected = COUNT / 20
        # chi-square with 19 degrees of freedom: 43.8 is its 99.9 % quantile
        assert float(((counts - expected) ** 2 / expected).sum()) < 43.8

    def test_pairs_of_neighbours_fill_the_square(self):
        draws = uniform(seeded(3), 0, 64_001)
        cells = (draws[:-1] * 8).long() * 8 + (draws[1:] * 8).long()
        counts = torch.bincount(cells, minlength=64).double()
        # chi-square with 63 degrees of freedom: 103.4 is its 99.9 % quantile
        assert float(((counts - 1000) ** 2 / 1000).sum()) < 103.4

    def test_different_words_are_scrambled_to_different_words(self):
        words = torch.randint(2**32, (2**17,), generator=torch.Generator().manual_seed(0)).unique()
        assert len(_scramble(words).unique()) == len(words)

    def test_a_longer_row_begins_with_the_shorter(self):
        assert torch.equal(uniform(seeded(3), 2, 100)[:10], uniform(seeded(3), 2, 10))

    def test_seeds_and_calls_have_their_own(self):
        rows = [uniform(seeded(s), call, 8) for s in (0, 1, 1 << 40, (1 << 62) - 1) for call in (0, 1, 2)]
        assert len({tuple(r.tolist()) for r in rows}) == 12


class TestMasks:
    @pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
    def test_a_share_p_is_dropped_and_the_rest_scaled_up(self, p):
        out = drop(torch.ones(200, 100), p=p)
        kept = out != 0
        assert abs(float(kept.double().mean()) - (1 - p)) < 4 * (p * (1 - p) / 20_000) ** 0.5
        torch.testing.assert_close(out[kept], torch.full((int(kept.sum()),), 1 / (1 - p)))

    def test_the_same_seed_drops_the_same_and_another_others(self):
        x = torch.ones(20, 20)
        assert torch.equal(drop(x, 1), drop(x, 1))
        assert not torch.equal(drop(x, 1), drop(x, 2))

    def test_two_calls_of_one_pass_drop_different_units(self):
        x = torch.ones(20, 20)
        with SeededDropout(seeded(1)):
            first, second = F.dropout(x), F.dropout(x)
        assert not torch.equal(first, second)
        assert torch.equal(first, drop(x, 1))

    def test_the_rows_of_a_padded_batch_begin_with_the_real_ones(self):
        x = torch.ones(8, 3, 5)
        assert torch.equal(drop(x)[:6], drop(x[:6]))
        assert torch.equal(drop(x, layer=nn.Dropout1d)[:6], drop(x[:6], layer=nn.Dropout1d))

    @pytest.mark.parametrize(
        ("layer", "shape"),
        [(nn.Dropout1d, (16, 8, 5)), (nn.Dropout2d, (16, 8, 3, 4)), (nn.Dropout3d, (16, 8, 2, 3, 2))],
    )
    def test_channels_go_as_a_whole(self, layer, shape):
        out = drop(torch.ones(shape), layer=layer).flatten(2)
        assert bool((out == out[:, :, :1]).all())
        kept = out[:, :, 0]
        assert set(kept.flatten().tolist()) == {0.0, 2.0}
        # neither whole samples nor one channel of all: both are mixed along each axis
        for axis in (0, 1):
            assert bool(((kept.amin(dim=axis) == 0) & (kept.amax(dim=axis) == 2)).any())

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
    def test_keeps_dtype_and_shape_and_drops_the_same_in_each(self, dtype):
        out = drop(torch.ones(4, 5, 6, dtype=dtype))
        assert (out.dtype, out.shape) == (dtype, (4, 5, 6))
        assert torch.equal(out != 0, drop(torch.ones(4, 5, 6)) != 0)

    def test_nothing_at_0_everything_at_1(self):
        x = torch.ones(5, 5)
        assert torch.equal(drop(x, p=0.0), x)
        assert not drop(x, p=1.0).any()

    def test_nothing_is_dropped_while_scoring(self):
        x = torch.ones(5, 5)
        with SeededDropout(seeded(1)):
            assert torch.equal(nn.Dropout(0.5).eval()(x), x)

    def test_the_global_generator_is_neither_used_nor_moved(self):
        x = torch.ones(20, 20)
        torch.manual_seed(0)
        before = torch.random.get_rng_state()
        first = drop(x, 1)
        assert torch.equal(torch.random.get_rng_state(), before)
        torch.manual_seed(1)
        assert torch.equal(drop(x, 1), first)


MODULE = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 4), nn.Dropout(0.25))
PARAMS = {n: p.detach() for n, p in MODULE.named_parameters()}
INPUTS = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))


class TestTransforms:
    """Dropout inside grad and vmap: the same as outside."""

    def loss(self, params, x, seed):
        with SeededDropout(seed):
            return functional_call(MODULE, params, (x,)).square().mean()

    def test_grad_sees_the_mask_of_its_seed(self):
        grads = grad(self.loss)(PARAMS, INPUTS, seeded(5))
        leaves = {n: p.clone().requires_grad_() for n, p in PARAMS.items()}
        self.loss(leaves, INPUTS, seeded(5)).backward()
        for name, leaf in leaves.items():
            torch.testing.assert_close(grads[name], leaf.grad)
        others = grad(self.loss)(PARAMS, INPUTS, seeded(6))
        assert not torch.allclose(others["0.weight"], grads["0.weight"])

    def test_a_batch_of_seeds_is_one_after_the_other(self):
        seeds = torch.tensor([3, 1 << 40, (1 << 62) - 5])
        stacked = {n: torch.stack([p * s for s in (1, 2, 3)]) for n, p in PARAMS.items()}
        together = vmap(grad(self.loss), in_dims=(0, None, 0))(stacked, INPUTS, seeds)
        for i, seed in enumerate(seeds):
            alone = grad(self.loss)({n: p[i] for n, p in stacked.items()}, INPUTS, seed)
            for name, value in alone.items():
                torch.testing.assert_close(together[name][i], value, rtol=1e-5, atol=1e-6)

    def test_masks_under_vmap_are_bit_for_bit_the_same(self):
        seeds = torch.arange(5) * 12345678901

        def masked(seed):
            with SeededDropout(seed):
                return F.dropout(torch.ones(4, 6), 0.3), F.dropout2d(torch.ones(4, 6, 2, 2), 0.3)

        plain, channels = vmap(masked)(seeds)
        for i, seed in enumerate(seeds):
            alone = masked(seed)
            assert torch.equal(plain[i], alone[0])
            assert torch.equal(channels[i], alone[1])
