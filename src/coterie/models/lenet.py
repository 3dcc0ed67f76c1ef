"""LeNet-5, and the smaller network that makni-2022 calls by that name.

LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998, section
II.B, in its usual modern form: ReLU for the scaled tanh, max-pooling for trainable subsampling, every map of
the second convolution connected to all of the first, linear outputs for radial basis functions. 61,706
parameters for one channel and 10 classes, at 32x32 or, padded by 2 on each side as LeCun did, 28x28.

Makni, "Deriving FL-SWAG as a one-shot method for the sake of calibration and privacy protection", 2022, has
by its program: convolution 5x5 to 6, pooling, convolution 5x5 to 16, pooling, linear 256-10 for 28x28,
without padding: 5,142 parameters. Pooling and activation are not stated; here max-pooling and ReLU.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from coterie.models.base import MODELS, picture, seeded

SMALLEST = 12  # padded by 2: 12 -> 12 -> 6 -> 2 -> 1
SMALLEST_UNPADDED = 16  # 16 -> 12 -> 6 -> 2 -> 1


@MODELS.register("lenet5")
@dataclass(frozen=True)
class LeNet5:
    """Two convolutions with pooling and three linear layers; pictures from 12x12, padded if below 32."""

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        channels, height, width = picture("lenet5", inputs, outputs, SMALLEST)
        padding = 2 if min(height, width) < 32 else 0
        positions = _left_over(height, padding) * _left_over(width, padding)
        return seeded(seed, lambda: _lenet(channels, positions, outputs, padding, hidden=(120, 84)))


@MODELS.register("lenet5-small")
@dataclass(frozen=True)
class LeNet5Small:
    """Two convolutions with pooling and one linear layer (makni-2022); pictures from 16x16."""

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        channels, height, width = picture("lenet5-small", inputs, outputs, SMALLEST_UNPADDED)
        positions = _left_over(height, 0) * _left_over(width, 0)
        return seeded(seed, lambda: _lenet(channels, positions, outputs, 0, hidden=()))


def _left_over(size: int, padding: int) -> int:
    """What two rounds of convolution 5x5 and pooling 2x2 leave of a side; only the first is padded."""
    return ((size + 2 * padding - 4) // 2 - 4) // 2


def _lenet(channels: int, positions: int, outputs: int, padding: int, hidden: tuple[int, ...]) -> nn.Module:
    # pooling before the rectifier: the same numbers to the bit, gradients too, with a quarter of its work
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, 6, 5, padding=padding),
        pool1=nn.MaxPool2d(2),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(6, 16, 5),
        pool2=nn.MaxPool2d(2),
        relu2=nn.ReLU(),
        flatten=nn.Flatten(),
    )
    features = 16 * positions
    for i, units in enumerate(hidden, start=1):
        layers[f"hidden{i}"] = nn.Linear(features, units)
        layers[f"activation{i}"] = nn.ReLU()
        features = units
    layers["head"] = nn.Linear(features, outputs)
    return nn.Sequential(layers)
