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

from coterie.core.errors import BadInput
from coterie.models.base import MODELS, picture, seeded

SMALLEST = 22  # 22 -> 20 -> 10 -> 8 -> 4 -> 2 -> 1


@MODELS.register("pens-cnn")
@dataclass(frozen=True)
class PensCnn:
    """Three convolutions with pooling and two linear layers (karlsson-2021); pictures from 22x22.

    width   channels of the first convolution, half of those of the others: 32 is the paper's
    """

    width: int = 32

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 1024:
            raise BadInput(f"model pens-cnn: width={self.width} must lie between 1 and 1024: try 32, or 8")

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        channels, height, width = picture("pens-cnn", inputs, outputs, SMALLEST)
        return seeded(
            seed, lambda: _pens_cnn(channels, _left_over(height) * _left_over(width), outputs, self.width)
        )


def _left_over(size: int) -> int:
    """What three rounds of convolution 3x3 and pooling 2x2 leave of a side."""
    for _ in range(3):
        size = (size - 2) // 2
    return size


def _pens_cnn(channels: int, positions: int, outputs: int, width: int = 32) -> nn.Module:
    # pooling before the rectifier: the same numbers to the bit, gradients too, with a quarter of its work
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, width, 3),
            pool1=nn.MaxPool2d(2),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(width, 2 * width, 3),
            pool2=nn.MaxPool2d(2),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(2 * width, 2 * width, 3),
            pool3=nn.MaxPool2d(2),
            relu3=nn.ReLU(),
            flatten=nn.Flatten(),
            hidden=nn.Linear(2 * width * positions, 64),
            head=nn.Linear(64, outputs),
        )
    )
