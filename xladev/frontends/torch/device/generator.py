"""Random numbers of the device: a generator of the host gives each call its seed."""

from __future__ import annotations

import weakref
from typing import Any

import torch

GENERATOR = torch.Generator("cpu")
GENERATOR.manual_seed(torch.initial_seed() & 0x7FFF_FFFF_FFFF_FFFF)

_ours: dict[int, weakref.ref[Generator]] = {}


class Generator(torch._C.Generator):  # type: ignore[misc]
    """What ``torch.Generator(device)`` makes for the device: its seeds are drawn on the host."""

    _place: torch.device

    @property
    def device(self) -> torch.device:
        """The device whose numbers it draws."""
        return self._place

    def clone_state(self) -> Generator:
        """Another one that goes on from the same state."""
        made = new(self._place)
        made.set_state(self.get_state())
        return made

    def __reduce__(self) -> Any:
        return again, (str(self._place), self.get_state())


def new(device: torch.device) -> Generator:
    """A generator of the device."""
    made = Generator("cpu")
    made._place = device
    number = made._cdata
    _ours[number] = weakref.ref(made, lambda _: _ours.pop(number, None))
    return made


def again(device: str, state: torch.Tensor) -> Generator:
    """A generator as it was when it was pickled."""
    made = new(torch.device(device))
    made.set_state(state)
    return made


def is_ours(generator: Any) -> bool:
    """Whether a generator, of which torch may show another wrapper, is one of the device."""
    return generator._cdata in _ours


def draw_seed(generator: Any = None) -> list[int]:
    """Two words of a seed; the generator, or that of the device, goes on by them."""
    chosen = GENERATOR if generator is None else generator
    words = torch.randint(0, 1 << 62, (2,), dtype=torch.int64, generator=chosen, device="cpu")
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
