"""Linear models that sites fit together exactly, from sums over their rows."""
