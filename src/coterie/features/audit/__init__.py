"""What leaks all the same: attacks on a finished run, each in a file of its own.

    membership   by loss threshold: was this row trained on?
    canaries     one training run with planted rows: a lower bound on epsilon
    inversion    rows from an update: linear layers, and small networks for pictures
    mixes        replies from weighted sums of them

A success proves a leak. A failed attack proves nothing: the next one may do better.
"""

BEFORE = "before training"  # the model that was trained on nothing
