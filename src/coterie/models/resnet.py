"""ResNet-18 for small pictures.

He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016, arXiv:1512.03385, in the form
usual for CIFAR: the stem is one 3x3 convolution with stride 1 and there is no max-pooling, so that 32x32
pictures are 4x4 before the global mean. Yang and Elkoushy, 2023, use a ResNet-18 on CIFAR.

    block(x) = relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))
    four stages of two blocks, 1, 2, 4 and 8 times `width` channels; all but the first halve the side

11,173,962 parameters at width 64 for three channels and 10 classes, with either norm.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from coterie.core.errors import BadInput, UnknownName
from coterie.models.base import MODELS, picture, seeded

Norm = Literal["batch", "group"]
SMALLEST = 8  # one position before the global mean
GROUP = 16  # channels normalised together by group norm, where they divide so


@MODELS.register("resnet18")
@dataclass(frozen=True)
class ResNet18:
    """Eighteen layers with shortcuts; pictures from 8x8.

    width   channels of the first stage: 64 is the paper's, 16 has a sixteenth of the weights
    norm    batch is the paper's; group keeps no running statistics, which clients with different data would
            have to average, and gives the same answer whatever else is in the batch
    """

    width: int = 64
    norm: Norm = "batch"

    def __post_init__(self) -> None:
        if not 4 <= self.width <= 1024:
            raise BadInput(f"model resnet18: width={self.width} must lie between 4 and 1024: try 64, or 16")
        if self.norm not in ("batch", "group"):
            raise UnknownName("norm", self.norm, ("batch", "group"))

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        channels, _, _ = picture("resnet18", inputs, outputs, SMALLEST)
        return seeded(seed, lambda: _resnet18(channels, outputs, self.width, self.norm))


class _Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, channels: int, made: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, made, 3, stride, padding=1, bias=False)
        self.norm1 = _normaliser(norm, made)
        self.conv2 = nn.Conv2d(made, made, 3, padding=1, bias=False)
        self.norm2 = _normaliser(norm, made)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels != made:
            self.shortcut = nn.Sequential(
                OrderedDict(
                    conv=nn.Conv2d(channels, made, 1, stride, bias=False), norm=_normaliser(norm, made)
                )
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(inner + self.shortcut(x))


def _normaliser(norm: Norm, channels: int) -> nn.Module:
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(channels // math.gcd(channels, GROUP), channels)


def _resnet18(channels: int, outputs: int, width: int, norm: Norm) -> nn.Module:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=nn.Conv2d(channels, width, 3, padding=1, bias=False),
        norm=_normaliser(norm, width),
        relu=nn.ReLU(),
    )
    before = width
    for stage in range(4):
        made = width * 2**stage
        layers[f"stage{stage + 1}"] = nn.Sequential(
            _Block(before, made, 1 if stage == 0 else 2, norm), _Block(made, made, 1, norm)
        )
        before = made
    layers["mean"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["head"] = nn.Linear(before, outputs)
    return nn.Sequential(layers)
