"""How many scores of models until it can be told whether a person is among a site's rows?

    python benchmarks/membership.py               # writes docs/results/membership.md and .csv; minutes
    python benchmarks/membership.py --quick       # a few draws of one site, nothing is written; seconds

The game. A person's row z, as the model sees it, is known to the attacker. A site has n rows of one
hospital: z and n - 1 others drawn by chance, or n others. The attacker leads runs and gets nothing from the
site but answers: mean loss and accuracy of a model on all n rows, by the kernels `score` and `noisy(score)`.
It says in or out; z is told where both errors, out said of who is in and in said of who is out, are at most
5 per cent.

Whose models are scored:
    honest    global models of all rounds of many runs of FedAvg, trained at the three other sites
    chosen    made up for the purpose; no folds, no parts of rows

What the attacker knows besides z and n:
    others      the n - 1 other rows, and who is there in the place of z if it is not: differential privacy's
                attacker. The exact ratio of likelihoods, of noise that is cut off at its bounds too
    list        2n people, of whom n are there, each with the same chance: a linear system whose unknowns are
                who is in (Dinur and Nissim 2003), solved by the best linear estimate
    population  rows of the same hospital that play no part in the game: how far answers lie in the
                direction of z (Homer et al. 2008, Dwork et al. 2015), by a covariance that is estimated and
                shrunk by Ledoit and Wolf's rule. Its threshold is the best in hindsight, which flatters it
    nothing     for chosen models: two that part the rows by planes a hair's breadth before and behind z

With honest models every draw of a site's rows is a game for all targets at once, as in Carlini et al. 2022:
errors are counted for each target over all draws, and answers are the median over targets. With chosen models
and noise every game has a target of its own, as all are told alike, and errors are counted over all games.
Intervals are of 95 per cent, by drawing targets or games anew.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from membership_attackers import SCORE, Told
from membership_games import Place, Said, Size, chosen, clear_planes, honest, honest_models, places
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from coterie.core.belief import Beliefs
from coterie.core.seeds import Key
from coterie.federation.demo.ward import Study, breast_cancer, study
from coterie.kernels.noisy import Noisy
from coterie.privacy.accounting import most_times, sigma_for
from coterie.runs.about import commit

RESULTS = Path(__file__).parents[1] / "docs" / "results"
ERROR, DELTA = 0.05, 1e-5
GRID = (1, 2, 5, 10, 20, 30, 50, 70, 100, 150, 200, 500, 1000)
LONG = {  # of chosen models with noise, by what is known besides
    "others": (500, 1000, 1500, 2000, 2500, 3000, 4000, 5000),
    "nothing": (2000, 4000, 6000, 8000, 10_000, 12_000),
}
EPSILONS, ANSWERS = (1.0, 3.0, 10.0), 100  # budgets, and the answers that each is spent on
FULL = Size()
QUICK = Size(targets=20, lists=2, draws=40, runs=10, rounds=10, games=0, budgeted=400)
NAMED = ("site, rows", "models", "knows")
Line = dict[str, object]


def redrawn(said: Said, rng: np.random.Generator, draws: int = 1000) -> Iterator[np.ndarray]:
    """Numbers of targets, or of games where each game has a target of its own, drawn with replacement."""
    many = said.true.shape[1] if said.true.shape[1] > 1 else len(said.true)
    return (rng.integers(many, size=many) for _ in range(draws))


def first_told(errors: np.ndarray, grid: Sequence[int]) -> np.ndarray:
    """[...] of errors [grid, ...]: from how many answers on they stay within the bound; inf: not at all."""
    good = np.logical_and.accumulate((errors <= ERROR)[::-1], axis=0)[::-1]
    return np.where(good[-1], np.asarray(grid)[good.argmax(axis=0)], np.inf)


def middle_of(values: np.ndarray) -> float:
    """The median; of two in the middle the higher one, as one of them may be inf."""
    return float(np.quantile(values, 0.5, method="higher"))


def needed(said: Sequence[Said], grid: Sequence[int], rng: np.random.Generator) -> Line:
    """Answers until a row is told, as the median over targets, or over all games where each has its own."""
    if said[0].true.shape[1] > 1:
        each = first_told(np.array([s.errors().max(axis=0) for s in said]), grid)
        medians = [middle_of(each[some]) for some in redrawn(said[0], rng)]
        middle, never = middle_of(each), float(np.isinf(each).mean())
    else:

        def over(some: np.ndarray) -> float:
            parts = [Said(s.said_in[some], s.true[some]).errors().max() for s in said]
            return float(first_told(np.array(parts), grid))

        medians = [over(some) for some in redrawn(said[0], rng)]
        middle = over(np.arange(len(said[0].true)))
        never = float(np.isinf(middle))
    low, high = np.quantile(medians, (0.025, 0.975), method="nearest")
    last = said[-1].errors().mean(axis=1)
    return {"answers": middle, "low": low, "high": high, "never": never, "most": grid[-1],
            "false_out": last[0], "false_in": last[1]}  # fmt: skip


def advantage(said: Said, rng: np.random.Generator) -> Line:
    """P[says in | in] - P[says in | out], over all targets and games."""

    def over(some: np.ndarray | slice) -> float:
        picked = (slice(None), some) if said.true.shape[1] > 1 else (some,)
        return 1 - float(
            Said(said.said_in[picked].reshape(-1, 1), said.true[picked].reshape(-1, 1)).errors().sum()
        )

    low, high = np.quantile([over(some) for some in redrawn(said, rng)], (0.025, 0.975))
    return {"advantage": over(slice(None)), "low": low, "high": high}


def promised(epsilon: float, delta: float = DELTA) -> float:
    """The largest advantage that (ε, δ) allows anybody: (e^ε - 1 + 2δ) / (e^ε + 1)."""
    return (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)


def of_gaussian(sigma: float, answers: int) -> float:
    """The same for noise σ on two figures of so many answers: 2 Φ(μ/2) - 1, μ = √(2 answers) / σ."""
    return float(2 * ndtr(math.sqrt(2 * answers) / (2 * sigma)) - 1)


def sigma_of(epsilon: float, answers: int = ANSWERS) -> float:
    """The noise by which so many answers cost this much in all."""
    return sigma_for(epsilon, DELTA, lambda sigma: Noisy(SCORE, sigma=sigma).charges(1) * answers)


def curves(place: Place, models: Beliefs, size: Size, key: Key, games: int) -> Iterator[Line]:
    """How many answers, without noise and with the usual noise; so many games of chosen models with noise."""
    rng = key.at("intervals").numpy()
    grid = [k for k in GRID if k <= size.runs * size.rounds]
    for sigma in (0.0, Noisy.sigma):
        for knows, said in honest(place, models, Told(sigma), size, grid, key).items():
            yield {"models": "honest", "knows": knows, "sigma": sigma, **needed(said, grid, rng)}
    for knows, said, ks in (
        ("others", chosen(place, Told(), "others", 2 * size.targets, (1,), key), (1,)),
        ("nothing", clear_planes(place, size, key), (2, 4, 6)),
    ):
        yield {"models": "chosen", "knows": knows, "sigma": 0.0, **needed(said, ks, rng)}
    for knows, tried in LONG.items() if games else ():
        number_of = games if knows == "others" else games // 2  # which take twice as long
        said = chosen(place, Told(Noisy.sigma), knows, number_of, tried, key.at(knows))
        yield {"models": "chosen", "knows": knows, "sigma": Noisy.sigma, **needed(said, tried, rng)}


def budgets(place: Place, models: Beliefs, size: Size, key: Key) -> Iterator[Line]:
    """The advantage that is left where a site's budget is spent on a hundred answers."""
    rng = key.at("intervals").numpy()
    for epsilon in EPSILONS:
        sigma = sigma_of(epsilon)
        told = Told(sigma)
        bounds = {"epsilon": epsilon, "sigma": sigma, "most": ANSWERS, "promised": promised(epsilon),
                  "of_gaussian": of_gaussian(sigma, ANSWERS)}  # fmt: skip
        own = key.at("budget", f"{epsilon:g}")
        said = honest(place, models, told, size, (ANSWERS,), own)
        for knows in ("others", "list"):
            yield {"models": "honest", "knows": knows, **bounds, **advantage(said[knows][0], rng)}
        game = chosen(place, told, "others", size.budgeted, (ANSWERS,), own)
        yield {"models": "chosen", "knows": "others", **bounds, **advantage(game[0], rng)}


def everything(data: Mapping[str, tuple[Study, Sequence[str]]], size: Size, seed: int) -> Iterator[Line]:
    """All lines; budgets at the first site of each table, thousands of answers at the first of all."""
    for i, (table, (rows, names)) in enumerate(data.items()):
        for place in places(rows, names):
            key = Key(seed).at(table, place.name)
            models = honest_models(place, size, key.at("models"))
            about: Line = {"table": table, "site": place.name, "rows": len(place.rows) // 3}
            first = place.name == names[0]
            for line in curves(place, models, size, key, size.games if first and not i else 0):
                yield {"what": "answers", **about, **line}
            for line in budgets(place, models, size, key) if first else ():
                yield {"what": "budget", **about, **line}


# words


def grid_of(header: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> list[str]:
    sides = ["---"] * words + ["---:"] * (len(header) - words)
    return [f"| {' | '.join(line)} |" for line in (header, sides, *rows)]


def number(value: object, most: object) -> str:
    found = float(str(value))
    return f"above {int(float(str(most))):,}" if math.isinf(found) else f"{int(found):,}"


def percent(value: object) -> str:
    return f"{100 * float(str(value)):.0f} %"


def answers_table(lines: Sequence[Mapping[str, object]]) -> list[str]:
    """Answers until a row is told, by models, knowledge and noise."""
    rows = []
    for line in lines:
        if line["what"] != "answers":
            continue
        low, middle, high = (number(line[name], line["most"]) for name in ("low", "answers", "high"))
        span = middle if low == middle == high else f"{middle} ({low} to {high})"
        noise = f"sigma {float(str(line['sigma'])):g}" if float(str(line["sigma"])) else "none"
        errors = " / ".join(percent(line[name]) for name in ("false_out", "false_in"))
        most = f"{int(float(str(line['most']))):,}"
        rows.append([*named(line), noise, span, percent(line["never"]), f"{errors} at {most}"])
    until = f"answers until both errors are at most {percent(ERROR)}"
    return grid_of([*NAMED, "noise", until, "targets never told", "false out / false in"], rows, 4)


def budget_table(lines: Sequence[Mapping[str, object]]) -> list[str]:
    """The advantage beside what is promised."""
    rows = []
    for line in lines:
        if line["what"] != "budget":
            continue
        found, low, high, gaussian, most = (
            f"{float(str(line[name])):.2f}".replace("-", "−")
            for name in ("advantage", "low", "high", "of_gaussian", "promised")
        )
        ends = [f"{float(str(line[name])):g}" for name in ("epsilon", "sigma")]
        rows.append([*named(line), *ends, f"{found} ({low} to {high})", gaussian, most])
    bounds = ("at most, by this noise", "at most, by epsilon")
    return grid_of([*NAMED, "epsilon", "sigma", "advantage, measured", *bounds], rows, 3)


def named(line: Mapping[str, object]) -> list[str]:
    return [f"{line['site']}, {line['rows']}", str(line["models"]), str(line["knows"])]


def afforded() -> str:
    """How many answers of the usual noise each budget has."""
    one = Noisy(SCORE).charges(1)
    each = (f"{most_times((), one, epsilon, DELTA):,} at epsilon {epsilon:g}" for epsilon in EPSILONS)
    return ", ".join(each)


def write(folder: Path, lines: Sequence[Line], command: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for line in lines for name in line))
    with (folder / "membership.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [*names, "commit", "command"], restval="", lineterminator="\n")
        table.writeheader()
        table.writerows({**line, "commit": commit() or "", "command": command} for line in lines)
    text = f"""# Membership by scores: how many answers tell
`{command}`, commit {commit()} ([CSV](membership.csv)).
The game, the attackers and what follows are in [privacy](../privacy.md#what-remains); the tables are the
demo's, heart disease (Cleveland, Switzerland) and breast cancer (north). Beside each site are the rows that
answers are about, a third of what it has.

{chr(10).join(answers_table(lines))}

*Never told*: the share of targets for whom one of both errors stayed above 5 % up to the largest number of
answers that was tried, at which the last column has both errors, as the mean over targets. Tried for honest
models: {", ".join(map(str, GRID))}. The usual noise is sigma {Noisy.sigma:g}, bound {Noisy.bound:g}; at
delta {DELTA:g} a budget has {afforded()}.

A budget spent on {ANSWERS} answers. The advantage is P(says in, if in) − P(says in, if out); 0.9 is needed
for two errors of 5 %.

{chr(10).join(budget_table(lines))}

*By this noise* is 2 Φ(√(2 · {ANSWERS}) / 2 sigma) − 1, which no test of Gaussian noise exceeds; *by epsilon*
is (e^epsilon − 1 + 2 delta) / (e^epsilon + 1), which no test of anything with that epsilon and delta exceeds.
"""
    (folder / "membership.md").write_text(text)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--quick", action="store_true", help="breast cancer alone, few draws; nothing is written"
    )
    options.add_argument("--out", type=Path, default=RESULTS)
    asked = options.parse_args()
    torch.set_num_threads(1)
    data: dict[str, tuple[Study, Sequence[str]]] = {"breast cancer": (breast_cancer(), ["north"])}
    if not asked.quick:
        data = {"heart disease": (study(print), ["cleveland", "switzerland"]), **data}
    lines = []
    with threadpool_limits(1):  # threads that wait for each other cost more than they bring
        for line in everything(data, QUICK if asked.quick else FULL, asked.seed):
            lines.append(line)
            print(line, flush=True)
    print("\n".join(["", *answers_table(lines), "", *budget_table(lines)]))
    if not asked.quick:
        write(asked.out, lines, f"python benchmarks/membership.py --seed {asked.seed}")


if __name__ == "__main__":
    main()
