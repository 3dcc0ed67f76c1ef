"""What stands out of noise: against the equations, planted ranks, invariances and the edges of the range."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadInput
from coterie.metrics.low_rank import (
    factorise,
    low_rank_parts,
    most_kept,
    shrink,
    singular_values,
    spectra,
    tau,
    threshold_of,
)


def noise(rows, columns, seed, level=1.0):
    generator = torch.Generator().manual_seed(seed)
    return level * torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def orthonormal(rows, rank, seed):
    return torch.linalg.qr(noise(rows, rank, seed)).Q


def planted(rows, columns, values, level, seed):
    """U diag(values) Vᵀ plus noise."""
    U, V = orthonormal(rows, len(values), seed), orthonormal(columns, len(values), seed + 1)
    return U * torch.tensor(values, dtype=torch.float64) @ V.mT + noise(rows, columns, seed + 2, level)


def energy(sigma2, gamma, rows, columns):
    """The free energy as in the paper, written down a second time: at most H values are kept."""
    ratio = rows / columns
    x = gamma**2 / (columns * sigma2)
    kept = (x > threshold_of(rows, columns)) & (np.arange(rows) < most_kept(rows, columns))
    t = np.where(
        kept, 0.5 * (x - (1 + ratio) + np.sqrt(np.maximum((x - (1 + ratio)) ** 2 - 4 * ratio, 0))), 0
    )
    psi = x - np.log(x) + np.where(kept, np.log(t + 1) + ratio * np.log(t / ratio + 1) - t, 0)
    return psi.sum()


class TestEquations:
    def test_threshold_of_a_square_matrix_by_hand(self):
        # log(1 + τ) = τ / 2 at τ = 2.5129
        x = threshold_of(8, 8)
        root = float(tau(torch.tensor(x, dtype=torch.float64), 1.0))
        assert root == pytest.approx(2.5129, abs=5e-5)
        assert math.log1p(root) == pytest.approx(root / 2, abs=1e-12)

    @pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 4), (10, 1000), (512, 4608)])
    def test_threshold_is_the_root_and_near_the_known_approximation(self, rows, columns):
        ratio = rows / columns
        root = float(tau(torch.tensor(threshold_of(rows, columns), dtype=torch.float64), ratio))
        sides = math.log1p(root) / root + ratio * math.log1p(root / ratio) / root
        assert sides == pytest.approx(1, abs=1e-9)
        assert root == pytest.approx(2.5129 * math.sqrt(ratio), rel=0.2)
        assert root > math.sqrt(ratio)

    def test_tau_undoes_x(self):
        t = torch.tensor([1.0, 2.0, 30.0], dtype=torch.float64)
        torch.testing.assert_close(tau((1 + t) * (1 + 0.25 / t), 0.25), t)

    def test_most_kept_by_hand(self):
        # ⌈8 / 2⌉ - 1, ⌈3 / (7/4)⌉ - 1, ⌈1 / (1 + 1/5)⌉ - 1, ⌈4 / (4/3)⌉ - 1
        assert [most_kept(8, 8), most_kept(3, 4), most_kept(1, 5), most_kept(4, 12)] == [3, 1, 0, 2]

    @pytest.mark.parametrize("seed", range(0, 20, 4))
    def test_noise_is_the_global_minimum_of_the_free_energy(self, seed):
        rows, columns = 3 + seed, 3 + 2 * seed
        matrix = planted(rows, columns, [6.0 + seed, 2.0], 0.5, seed)
        gamma = torch.linalg.svdvals(matrix).numpy()
        least = energy(factorise(matrix).noise, gamma, rows, columns)
        grid = np.geomspace(1e-4, 10, 1000) * (gamma**2).mean() / columns
        assert all(energy(s, gamma, rows, columns) >= least - 1e-9 for s in grid)

    @pytest.mark.parametrize("seed", range(0, 20, 4))
    def test_kept_values_are_shrunk_by_the_formula_and_noise_is_the_rest(self, seed):
        rows, columns = 6 + seed, 40 - seed
        matrix = planted(rows, columns, [20.0, 12.0], 0.3, seed)
        gamma, (_, S, _, sigma2) = torch.linalg.svdvals(matrix).numpy(), factorise(matrix)
        s = gamma[: len(S)]
        inner = 1 - (rows + columns) * sigma2 / s**2
        by_formula = s / 2 * (inner + np.sqrt(inner**2 - 4 * rows * columns * sigma2**2 / s**4))
        np.testing.assert_allclose(S.numpy(), by_formula, rtol=1e-10)
        short, long = min(rows, columns), max(rows, columns)
        bound = math.sqrt(long * sigma2 * threshold_of(short, long))
        assert (gamma > bound).sum() == len(S) == 2
        # where the slope of the free energy is 0
        rest = (gamma**2).sum() - (s * S.numpy()).sum()
        assert sigma2 * rows * columns == pytest.approx(rest, rel=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_rank_is_found_and_its_values_are_shrunk_to_what_was_planted(seed):
    draw = np.random.default_rng(seed)
    rows, columns = (int(v) for v in draw.integers(40, 120, 2))
    rank, level = int(draw.integers(0, 6)), float(10 ** draw.uniform(-4, 2))
    edge = level * math.sqrt(rows + columns)  # noise alone reaches level · (√rows + √columns)
    values = sorted((edge * draw.uniform(3, 12, rank)).tolist(), reverse=True)
    matrix = planted(rows, columns, values, level, 1000 * seed)
    U, S, V, sigma2 = factorise(matrix)
    assert len(S) == rank
    assert sigma2 == pytest.approx(level**2, rel=0.15)
    # theory: γ of a planted γ* is shrunk to γ*² / γ; γ scatters by the level of noise, so both sides do
    observed = torch.linalg.svdvals(matrix)[:rank].numpy()
    np.testing.assert_allclose(S.numpy(), np.array(values) ** 2 / observed, rtol=0, atol=8 * level)
    assert (S.numpy() < observed).all()
    torch.testing.assert_close(U.mT @ U, torch.eye(rank, dtype=torch.float64))
    torch.testing.assert_close(V.mT @ V, torch.eye(rank, dtype=torch.float64))
    # and with the noise taken away it is nearer to the truth than the matrix was
    truth = matrix - noise(rows, columns, 1000 * seed + 2, level)
    assert (U * S @ V.mT - truth).norm() < (matrix - truth).norm()


CASES = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 3), st.integers(0, 10**6))


def matrix_of(case):
    """[row, column] of a rank that fits, and noise."""
    rows, columns, rank, seed = case
    rank = min(rank, rows, columns)
    return planted(rows, columns, [8.0 * (i + 1) for i in range(rank)], 0.4, seed)


class TestInvariances:
    @settings(max_examples=20)
    @given(CASES)
    def test_transpose(self, case):
        one, other = factorise(matrix_of(case)), factorise(matrix_of(case).mT)
        torch.testing.assert_close(one.S, other.S)
        assert one.noise == pytest.approx(other.noise, rel=1e-9)
        torch.testing.assert_close(one.U * one.S @ one.V.mT, (other.U * other.S @ other.V.mT).mT)

    @settings(max_examples=20)
    @given(CASES, st.floats(-150, 150))
    def test_scaling(self, case, power):
        factor = 10.0**power
        one, other = factorise(matrix_of(case)), factorise(factor * matrix_of(case))
        torch.testing.assert_close(other.S / factor, one.S, rtol=1e-9, atol=1e-12)
        assert other.noise / factor / factor == pytest.approx(one.noise, rel=1e-9)

    @settings(max_examples=20)
    @given(CASES)
    def test_many_at_once_are_as_one_by_one(self, case):
        matrices = torch.stack([matrix_of(case), matrix_of((*case[:2], 0, 5)), torch.zeros(case[:2])])
        together, parts, raw = spectra(matrices), low_rank_parts(matrices), singular_values(matrices)
        for i, matrix in enumerate(matrices):
            U, S, V, sigma2 = factorise(matrix)
            torch.testing.assert_close(together.S[i][together.S[i] > 0], S, rtol=1e-9, atol=1e-9)
            assert float(together.noise[i]) == pytest.approx(sigma2, rel=1e-9)
            torch.testing.assert_close(parts[i], U * S @ V.mT, rtol=1e-7, atol=1e-9)
            torch.testing.assert_close(raw[i], torch.linalg.svdvals(matrix), rtol=1e-7, atol=1e-6)


class TestEdges:
    @pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (4, 7), (7, 4)])
    def test_zero(self, shape):
        U, S, V, sigma2 = factorise(torch.zeros(shape))
        assert (U.shape, S.shape, V.shape, sigma2) == ((shape[0], 0), (0,), (shape[1], 0), 0.0)
        assert spectra(torch.zeros(2, *shape)).S.tolist() == [[0.0] * min(shape)] * 2

    @pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (2, 2)])
    def test_one_row_or_column_is_all_noise(self, shape):
        matrix = noise(*shape, seed=3)
        assert len(factorise(matrix).S) == 0
        assert factorise(matrix).noise == pytest.approx(float(matrix.square().mean()))

    @pytest.mark.parametrize(("shape", "rank"), [((5, 9), 1), ((9, 5), 3), ((60, 80), 7), ((40, 40), 19)])
    def test_a_matrix_without_noise_is_kept_as_it_is(self, shape, rank):
        values = [float(i + 1) for i in range(rank)]
        matrix = planted(*shape, values, 0.0, 2)
        U, S, V, sigma2 = factorise(matrix)
        torch.testing.assert_close(S, torch.tensor(values[::-1], dtype=torch.float64))
        assert sigma2 == 0
        torch.testing.assert_close(U * S @ V.mT, matrix)
        many = spectra(matrix.unsqueeze(0))
        assert (int((many.S > 0).sum()), float(many.noise)) == (rank, 0.0)

    def test_never_more_than_h_are_kept(self):
        squares = torch.tensor([[100.0, 99.0, 98.0, 97.0, 1e-9, 1e-9]], dtype=torch.float64)
        assert int((shrink(squares, 6).S > 0).sum()) <= most_kept(6, 6) == 2

    def test_float32_and_integers_are_worked_out_in_float64(self):
        matrix = planted(20, 30, [40.0, 30.0], 0.5, 1)
        S = factorise(matrix.float()).S
        assert S.dtype == torch.float64
        torch.testing.assert_close(S, factorise(matrix).S, rtol=1e-6, atol=0)
        assert factorise(torch.ones(3, 5, dtype=torch.int64)).S.tolist() == pytest.approx([math.sqrt(15)])

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_not_finite_is_refused(self, bad, refused):
        matrix = torch.ones(3, 4)
        matrix[1, 2] = bad
        message = "a matrix holds NaN or infinity, which has no low-rank part: look at what made it"
        for work in (factorise, lambda m: spectra(m.unsqueeze(0)), lambda m: low_rank_parts(m.unsqueeze(0))):
            with refused(BadInput, message):
                work(matrix)

    @pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 4)])
    def test_what_is_no_matrix_is_refused(self, shape, refused):
        with refused(BadInput, f"a tensor of shape {list(shape)} is no matrix: give [row, column]"):
            factorise(torch.ones(shape))
