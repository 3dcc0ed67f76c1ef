"""The figures of makni-2022's tables, each of one run."""

from __future__ import annotations

from coterie.studies.base import printed

# accuracies in %: section 7.1 on MNIST and FashionMNIST, section 8.3 on MNIST, FashionMNIST and CIFAR-10
ACCURACIES = printed("""
                logistic/mnist  logistic/fashion-mnist  lenet/mnist  lenet/fashion-mnist  resnet/cifar10
client 1        84.07  75.72  97.74  86.47  69.85
client 2        87.41  80.15  97.99  87.36  69.69
client 3        87.75  78.63  98.03  85.53  69.73
client 4        89.57  80.81  97.44  86.71  69.6
client 5        90.21  81.11  98.02  85.66  70.29
client 6        90.09  81.75  97.98  86.92  70.13
client 7        90.77  80.82  98.18  85.85  70.18
client 8        90.29  82.51  97.9   87.03  70.28
client 9        90.69  83.1   97.85  87.26  70.46
client 10       90.8   82.8   98.15  86.98  70.35
FL-SWAG, mean   90.96  81.32  97.41  87.57  70.35
FedAvg          91.58  83.0   97.64  87.6   70.26
wFedAvg         91.93  83.63  97.44  87.48  70.44
BayAvg          91.65  83.05  98.57  87.58  70.32
wBayAvg         91.98  83.61  98.55  87.49  70.45
common          92     84
""")

# the calibration table of 8.3: accuracy in %, ECE x 100, Brier x 10, NLL x 10
CALIBRATION = printed("""
                       accuracy  ECE  Brier  NLL
mnist FL-SWAG          97.41   0.77  0.41  0.86
mnist sgld             97.61   1.22  0.38  0.89
mnist psgld            97.42   1.97  0.45  1.58
fashion-mnist FL-SWAG  87.57   6.92  3.18  4.69
fashion-mnist sgld     87.15   4.16  1.90  3.91
fashion-mnist psgld    86.67   2.73  1.95  3.93
cifar10 FL-SWAG        70.35   7.82  4.18  9.18
cifar10 sgld           75.16   6.38  3.51  7.39
cifar10 psgld          77.67  13.84  3.55  9.77
""")


def accuracy(cell: str, row: str) -> str:
    """As printed; a dash where the paper has none."""
    return ACCURACIES.get(row, {}).get(cell, "–")


def calibration(data: str, row: str) -> list[str]:
    """As printed: accuracy, ECE, Brier, NLL; dashes where the paper has none."""
    return list(CALIBRATION.get(f"{data} {row}", {}).values()) or ["–"] * 4
