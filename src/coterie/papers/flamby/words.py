"""What the tables mean, in words."""

from __future__ import annotations

TITLES = {
    "heart": "Heart disease, four hospitals: accuracy, %",
    "brca": "Breast cancer, six regions: concordance, %",
}
INTRO = (
    "FLamby's split, standardisation, models, first weights, batch sizes, updates and rates. Each cell is "
    "ours, mean ± standard deviation over five seeds, and in brackets what FLamby published. The column "
    "`pooled` is one model on all test rows, which FLamby standardises together for heart disease, as the "
    "training rows of the pooled model are and those of the others are not. Test rows are the same for "
    "all seeds. The row `cyclic` is the method as its paper has it, a whole cycle in each round; "
    "`cyclic-as-run` is what FLamby's program does."
)
CYCLE = (
    "FLamby's program never hands the model on: each client trains a model of its own, one client a "
    "round, and the first client's is tested. `cyclic-as-run` does that: see its row"
)
CHANCE = "not found out: batches in another order are the only difference that we know"
PERSONAL_INTRO = (
    "All with SGD at 0.01, a rate that nobody searched, 100 updates a round and as many rounds as above; "
    "options are the defaults, but `finetune` tunes for one round more, `fedper` and `fedrep` keep the bias "
    "of the one layer at home, and `fedfomo` holds a fifth of the training rows out, which it needs. Each "
    "client's own model on its own test rows, means over seeds; the gain over `local`, at the same rate, in "
    "points, ± half of the 95 % interval over seeds, which share test rows: it does not cover other test "
    "rows, of which Switzerland has 16 and Canada 11."
)


def why(federation: str, way: str) -> str:
    """Why ours and theirs differ."""
    return CYCLE if way == "cyclic" else CHANCE
