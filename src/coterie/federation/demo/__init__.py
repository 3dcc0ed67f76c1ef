"""A federation on one machine: shown (`show.py`), and rehearsed while things go wrong (`rehearsal.py`)."""
