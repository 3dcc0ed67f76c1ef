"""Candidates run on folds of the clients' own training rows, and what came of them: what advice stands on."""
