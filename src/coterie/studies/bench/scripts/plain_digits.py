"""Handwritten digits, labels shifted among ten clients, in plain PyTorch: four ways to train.

python plain_digits.py OUT.csv --data digits.npz

The file with the clients is one that `coterie bench whole --out FOLDER` leaves behind.
"""

from __future__ import annotations

from plain_common import central, fedavg, finetune, local, run_study  # type: ignore[import-not-found]

METHODS = {"local": local, "fedavg": fedavg, "finetune": finetune, "central": central}

if __name__ == "__main__":
    run_study(METHODS, data="digits.npz", lr=0.5, seeds=5)
