"""Random numbers of the device: a generator of the host gives each call its seed."""

from __future__ import annotations

from typing import Any

import torch

GENERATOR = torch.Generator("cpu")
GENERATOR.manual_seed(torch.initial_seed() & 0x7FFF_FFFF_FFFF_FFFF)


def draw_seed() -> list[int]:
    """Two words of a seed; the generator goes on by them."""
    words = torch.randint(0, 1 << 62, (2,), dtype=torch.int64, generator=GENERATOR, device="cpu")
    found: list[int] = words.tolist()
    return found


def manual_seed(seed: int) -> None:
    """Fixes what is drawn from now on."""
    GENERATOR.manual_seed(seed)


def state(device: Any = None) -> torch.Tensor:
    """The state, as bytes on the host."""
    return GENERATOR.get_state()


def set_state(state: torch.Tensor, device: Any = None) -> None:
    """Goes on from a state."""
    GENERATOR.set_state(state.cpu())
