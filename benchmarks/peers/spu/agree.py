"""Our sealed sums and distances beside those of SPU, a library for secure computation, on the same replies.

    python benchmarks/peers/spu/agree.py ours agree.npz            # with Coterie
    SPU_ENV/bin/python benchmarks/peers/spu/agree.py theirs agree.npz    # in an environment with spu

SPU computes with its protocol SEMI2K between two simulated parties, in its ring of 64 bits with its own 18
bits behind the point (and in that of 128 bits, with 40); ours has 26. Both are also held against numpy.
"""

from __future__ import annotations

import sys
import time

import numpy as np

CASES = [(4, 1_000), (8, 20_000), (10, 200_000)]  # replies, words of each


def replies(n: int, words: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(n * words)
    x = draws.normal(size=(n, words)) / np.sqrt(words)
    weights = draws.random(n)
    return x, weights / weights.sum()


def ours(path: str) -> None:
    import hashlib
    import secrets

    from coterie.features.sealed.parties import Dealer, Server, Terms, masked
    from coterie.features.sealed.ring import decoded, room_for_distances, summed_up, whole_weights

    found = {}
    for n, words in CASES:
        x, weights = replies(n, words)
        start = time.perf_counter()
        names, terms = [str(i) for i in range(n)], Terms(26, room_for_distances(), words)
        dealer, a, b = Dealer(), Server("a", 1.0), Server("b", 1.0)
        seeds = dealer.deal(names, words)
        a.take_seeds({k: s[0] for k, s in seeds.items()})
        b.take_seeds({k: s[1] for k, s in seeds.items()})
        for name, one in zip(names, x, strict=True):
            sent = masked(one, seeds[name], terms)
            for server in (a, b):
                server.take(name, sent, terms, name, "r")
        coin = hashlib.sha256(secrets.token_bytes(32)).digest()
        mine, theirs = a.project(names, coin), b.project(names, coin)
        assert not a.judge(names, mine, theirs)
        assert not b.judge(names, theirs, mine)
        whole, bits = whole_weights(weights[None])
        told = (names, {"w": whole}, {"w": (0, words)}, "lead", secrets.token_bytes(32))
        mix = decoded(a.mix(*told) + b.mix(*told), 26 + bits) * summed_up(weights[None], whole, bits)[:, None]
        pairs = [(i, i) for i in names] + [(i, "0") for i in names[1:]]
        first, second = dealer.products(pairs, [[(0, words)]])
        blind = secrets.token_bytes(32)
        squares = a.distances(pairs, pairs, [[(0, words)]], first, blind)
        squares = squares + b.distances(pairs, pairs, [[(0, words)]], second, blind)
        seconds = time.perf_counter() - start
        d = np.sqrt(decoded(squares, 52)[n:, 0])
        found |= {f"mix{n}": mix[0], f"d{n}": d, f"s{n}": np.array(seconds)}
    np.savez(path, **found)


def theirs(path: str) -> None:
    import jax.numpy as jnp
    import spu
    import spu.utils.simulation as sim

    found = np.load(path)
    columns = ("ours - numpy", "SPU 64 - numpy", "SPU 128 - numpy", "ours - SPU 128", "s, ours", "s, SPU 64")
    print(f"| replies x words | {' | '.join(columns)} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for n, words in CASES:
        x, weights = replies(n, words)
        exact = np.concatenate([weights @ x, np.linalg.norm(x[1:] - x[0], axis=1)])
        mine = np.concatenate([found[f"mix{n}"], found[f"d{n}"]])
        runs, seconds = {}, {}
        for field, fraction in ((spu.FieldType.FM64, 18), (spu.FieldType.FM128, 40)):
            config = spu.RuntimeConfig(
                protocol=spu.ProtocolKind.SEMI2K, field=field, fxp_fraction_bits=fraction
            )
            party = sim.Simulator(2, config)

            def both(x: jnp.ndarray, w: jnp.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
                return w @ x, ((x[1:] - x[0]) ** 2).sum(axis=1)

            begun = time.perf_counter()
            mix, squares = sim.sim_jax(party, both)(x.astype(np.float32), weights.astype(np.float32))
            seconds[fraction] = time.perf_counter() - begun
            runs[fraction] = np.concatenate([np.asarray(mix), np.sqrt(np.maximum(squares, 0))])

        def off(left: np.ndarray, right: np.ndarray) -> str:
            return f"{np.abs(left - right).max():.1e}"

        print(
            f"| {n} x {words:,} | {off(mine, exact)} | {off(runs[18], exact)} | {off(runs[40], exact)} | "
            f"{off(mine, runs[40])} | {float(found[f's{n}']):.2f} | {seconds[18]:.2f} |"
        )


if __name__ == "__main__":
    {"ours": ours, "theirs": theirs}[sys.argv[1]](sys.argv[2])
