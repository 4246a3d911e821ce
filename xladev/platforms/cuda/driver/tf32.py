"""tf32, as emulated libraries round f32 to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def cut_to_tf32(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """f32 or c64 with ten bits of mantissa, the rest cut off."""
    bits = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)
    cut: npt.NDArray[Any] = bits.view(x.dtype)
    return cut
