"""What the tables mean, in words."""

INTRO = (
    "The honest clients' mean accuracy on their own test rows. *Nobody lies* is in %, ± half of the 95 % "
    "interval over seeds; under each way of lying stands what it changes for the very same clients, in "
    "points, the mean over seeds. **Bold** lies more than 3 points below. From `mean` to `bulyan` "
    "there is one model for all, from `monna` on one for each."
)
WORDS = ""
