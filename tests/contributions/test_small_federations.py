"""Drawn Shapley values beside exact ones, through the net, on random federations of 6: the default level and
seeds 0, 1, 2, ... as they come. `benchmarks/contributions.py` prints the same and more.
"""

from __future__ import annotations

import pytest


def within(benchmark, seed: int, **options) -> dict[str, int]:
    """How many figures of each estimate are outside of their intervals."""
    by = "+".join((*benchmark.DRAWN, benchmark.EXACT))
    found = benchmark.played(seed, benchmark.method_of(seed), by, **options).contributions()
    assert found.level == 0.999
    return {name: benchmark.held(found, name).outside for name in benchmark.DRAWN}


@pytest.mark.parametrize("seed", range(2))
def test_estimates_are_within_their_intervals(benchmark, seed):
    assert within(benchmark, seed, rounds=1) == {"shapley": 0, "gtg": 0}


@pytest.mark.slow
def test_thirty_random_federations(benchmark):
    assert [within(benchmark, seed) for seed in range(30)] == [{"shapley": 0, "gtg": 0}] * 30
