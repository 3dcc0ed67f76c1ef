"""An append-only chain of what happened in a run, whose heads sites sign and keep."""
