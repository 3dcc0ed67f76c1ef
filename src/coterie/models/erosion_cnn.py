"""The network of Weight Erosion on MNIST.

Gengler, Beaussart and Yuan, "Personalized federated image classification using weight erosion", 2020, as in
their program: three convolutions 3x3 with stride 2 and padding 1 to 32, 64 and 128 channels, a ReLU after
each; linear 2048-128-10 with a ReLU between. 356,234 parameters for 1x28x28 and 10 classes. Their
log-softmax is in the loss here. Any picture size will do: the first linear layer follows it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from coterie.models.base import MODELS, picture, seeded


@MODELS.register("erosion-cnn")
@dataclass(frozen=True)
class ErosionCnn:
    """Three strided convolutions and two linear layers (gengler-2020)."""

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        channels, height, width = picture("erosion-cnn", inputs, outputs)
        # three convolutions with stride 2 and padding 1 halve each side three times, rounding up
        positions = -(-height // 8) * -(-width // 8)
        return seeded(seed, lambda: _erosion_cnn(channels, positions, outputs))


def _erosion_cnn(channels: int, positions: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 32, 3, stride=2, padding=1),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 3, stride=2, padding=1),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(64, 128, 3, stride=2, padding=1),
            relu3=nn.ReLU(),
            flatten=nn.Flatten(),
            hidden=nn.Linear(128 * positions, 128),
            relu4=nn.ReLU(),
            head=nn.Linear(128, outputs),
        )
    )
