"""Where tensors live: the processor, or an accelerator that torch knows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from coterie.core.errors import BadInput


def device_of(name: str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        backends = {kind: getattr(torch, kind, None) for kind in ("cuda", "mps", "xpu")}
        have = ["cpu", *(kind for kind, one in backends.items() if one is not None and one.is_available())]
        raise BadInput(f"device={name!r} is not available here: use {' or '.join(have)}") from None
    if device.type == "meta":
        raise BadInput("device='meta' holds no numbers: use cpu")
    return device


def widest(device: torch.device) -> torch.dtype:
    """The most exact kind of number there: float64, but on Apple's accelerators float32."""
    return torch.float32 if device.type == "mps" else torch.float64


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, what a module draws by itself comes from this seed; outside, nothing has happened."""
    elsewhere = [] if device.type == "cpu" else [device]
    kind = "cuda" if device.type == "cpu" else device.type
    with torch.random.fork_rng(devices=elsewhere, device_type=kind):
        torch.default_generator.manual_seed(seed)
        if elsewhere:
            torch.get_device_module(device).manual_seed(seed)
        yield
