"""What others are held against: nothing learnt, each client alone, all rows in one place."""

NOTHING = "nothing"
YARDSTICKS = (NOTHING, "local", "central")
"""Methods by which clients do not train together, by name."""
