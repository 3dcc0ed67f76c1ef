"""What the tables mean, in words. Why a method breaks is said only where the tables say that it does."""

from __future__ import annotations

from collections.abc import Mapping

INTRO = (
    "The honest clients' mean accuracy on their own test rows. *Nobody lies* is in %, ± half of the 95 % "
    "interval over seeds: on digits and hospitals over splits of the same rows, corrected for those they "
    "share, on MNIST over seeds that share test rows; under each way of lying stands what it "
    "changes for the very same clients, in points, the mean over seeds. **Bold** lies more than 3 points "
    "below. From `mean` to `bulyan` there is one model for all, from `monna` on one for each."
)
FREE = (
    "free riders send what they got, an update of nothing: it is short, all of them send the same, and so it "
    "passes for everybody's near neighbour and takes the place of honest replies"
)
FOUR = "with four clients n > 2f + 2 allows no liar at all, f is 0, and what is left is a plain mean"
WHY = {
    "mean": "a mean has no bound: a reply that is long enough moves it anywhere, and wrong labels count in "
    "full",
    "krum": f"it looks for replies that have near neighbours, and liars that work together are each other's; "
    f"{FREE}; {FOUR}",
    "nnm+krum": f"mixing with neighbours first takes from liars what they gain by being alike, but {FREE}; "
    f"{FOUR}",
    "geometric-median": "it needs no f and pays for it: a third that pulls the same way moves it by as much "
    "as honest replies differ, in every round",
    "nnm+geometric-median": f"{FREE}; and where a liar's reply cannot be used at all, f stays at the guess, "
    "so that honest replies are discounted in its place",
    "centred-clipping": "it bounds how far a reply pulls, not where to: liars whose replies are no longer "
    "than honest ones count in full, and a third of them outweighs what the honest agree on",
    "minimum-diameter": "it takes the replies that lie closest together, and liars that agree lie closest",
    "norm-bound": "as centred clipping, with one step: directions are left alone",
    "median": "each weight of the model has a median of its own; where honest clients differ, a third of "
    "liars moves it far within what is honest, in every round",
    "trimmed-mean": "as the median: lies within the honest range are not trimmed",
    "meamed": "as the median; and replies that are the same, as free riders' are, gather around it",
    "bulyan": "n >= 4f + 3 allows one liar of ten and none of four: here are two, three and one",
    "influence": "it ranks once, by one round: who is right at first and repeats itself from then on stays "
    "in the circle, and so does who sends a good update ten times as long; and with few held-out rows a lie "
    "may look like help",
    "ndoye": "it takes the loss at home off the loss at the requester, so that a model which is bad at home "
    "is forgiven for being bad here: wrong labels, turned signs and a claimed loss all make a liar look like "
    "a good partner. That is its weak point",
}
MORE = (
    "Figures above 0 are no gift of the liars: where one client is unlike the others, as among the four "
    "hospitals, one model for all gains when it happens to be the one left out. `local` listens to nobody, "
    "and is what lying cannot touch. Accuracy says nothing of a backdoor: look at how often its trigger "
    "works. And all of it is for clients that differ mildly; where labels are dealt more unevenly, rules for "
    "one model lose more to honest clients being unlike than to liars ([robust rules](../robust.md))."
)


def words_of(broken: Mapping[str, bool]) -> str:
    """By method, in order: whether any way of lying breaks it."""
    fine = [f"`{way}`" for way, bad in broken.items() if not bad]
    held = f"No way of lying breaks {', '.join(fine)}." if fine else "No method is broken by no way of lying."
    whys = [f"- `{way}`: {WHY[way]}." for way, bad in broken.items() if bad and way in WHY]
    return "\n\n".join([held, "Why the others break:", "\n".join(whys), MORE])
