"""A federation on one machine: shown (`ward.py`), and rehearsed while things go wrong (`rehearsal.py`)."""
