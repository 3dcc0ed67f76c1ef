"""Titanic's passengers by age, in plain PyTorch: four ways to train.

python plain_titanic.py OUT.csv --data titanic.npz

The file with the clients is one that `coterie bench whole --out FOLDER` leaves behind.
"""

from __future__ import annotations

from plain_common import central, fedavg, finetune, local, run_study  # type: ignore[import-not-found]

METHODS = {"local": local, "fedavg": fedavg, "finetune": finetune, "central": central}

if __name__ == "__main__":
    run_study(METHODS, data="titanic.npz", lr=0.1, seeds=5)
