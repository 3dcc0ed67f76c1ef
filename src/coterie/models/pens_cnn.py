"""The network of PENS on CIFAR-10.

Karlsson and Onoszko, "PENS: leveraging data heterogeneity in federated learning", 2021, Table 3.1: three
times convolution 3x3 (32, 64, 64 channels), ReLU, max-pooling 2x2; then linear to 64 and linear to the
classes. 73,418 parameters for 3x32x32 and 10 classes, as the table says. Its activation after the first
linear layer is "Linear", so there is none here either: both linear layers together are one of rank 64.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from coterie.models.base import MODELS, picture, seeded

SMALLEST = 22  # 22 -> 20 -> 10 -> 8 -> 4 -> 2 -> 1


@MODELS.register("pens-cnn")
@dataclass(frozen=True)
class PensCnn:
    """Three convolutions with pooling and two linear layers (karlsson-2021); pictures from 22x22."""

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        channels, height, width = picture("pens-cnn", inputs, outputs, SMALLEST)
        return seeded(seed, lambda: pens_cnn(channels, left_over(height) * left_over(width), outputs))


def left_over(size: int) -> int:
    """What three rounds of convolution 3x3 and pooling 2x2 leave of a side."""
    for _ in range(3):
        size = (size - 2) // 2
    return size


def pens_cnn(channels: int, positions: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 32, 3),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(32, 64, 3),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            conv3=nn.Conv2d(64, 64, 3),
            relu3=nn.ReLU(),
            pool3=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            hidden=nn.Linear(64 * positions, 64),
            head=nn.Linear(64, outputs),
        )
    )
