"""A model for each client beside, around or inside of a shared one, or made with those of some others."""
