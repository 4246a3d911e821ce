"""Windows along a dimension that is cut: what each part of the results reaches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.passes.spmd.dilated import DilatedRanges, dilated_ranges, fetch_dilated
from xladev.passes.spmd.halo import Ranges, fetch
from xladev.passes.spmd.local_builder import LocalBuilder


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """The windows of each part of the results.

    Attributes:
        instruction: a reduction over windows, or a convolution.
        window: along the dimension.
        source: the dimension of the operand.
        target: that of the result.
        count: number of parts.
    """

    instruction: HloInstruction
    window: WindowDim
    source: int
    target: int
    count: int

    @property
    def _size(self) -> int:
        return self.instruction.operands[0].shape.dims[self.source]

    @property
    def _results(self) -> int:
        return flattened_shapes(self.instruction.shape)[0].dims[self.target]

    @property
    def _local(self) -> int:
        return -(-self._results // self.count)

    @property
    def ranges(self) -> Ranges:
        """The elements that windows of each part reach."""
        return self._alike if self._are_alike else self._dilated.ranges

    @property
    def _alike(self) -> Ranges:
        """Dilated elements lie ``base_dilation`` apart.

        The first of them lies as far behind the beginning of the windows in each part, which
        `_edges` says.
        """
        window, local, apart = self.window, self._local, self.window.base_dilation
        first = -(window.pad_low // apart)
        low = self._edges(1)[0]
        starts = tuple(
            first + place * local * window.stride // apart for place in range(self.count)
        )
        part = -(-self._size // self.count)
        used = tuple(self._elements(n, low) for n in valid(self._results, local, self.count))
        return Ranges(starts, self._elements(local, low), part, self._size, used)

    def _elements(self, local: int, low: int) -> int:
        if not local:
            return 0
        return (reach(self.window, local) - 1 - low) // self.window.base_dilation + 1

    @property
    def _dilated(self) -> DilatedRanges:
        window, local = self.window, self._local
        begins = [place * local * window.stride - window.pad_low for place in range(self.count)]
        counts = valid(self._results, local, self.count)
        lengths = [reach(window, n) if n else 0 for n in counts]
        return dilated_ranges(begins, lengths, window.base_dilation, self._size)

    @property
    def _are_alike(self) -> bool:
        """True if windows begin at the same distance from an element in all parts."""
        window, local = self.window, self._local
        is_met = reach(window, local) > self._edges(1)[0]
        return local * window.stride % window.base_dilation == 0 and is_met

    def _edges(self, local: int) -> tuple[int, int]:
        """How far windows reach beyond the first and the last element that they meet."""
        window = self.window
        low = window.pad_low % window.base_dilation
        return low, (reach(window, local) - 1 - low) % window.base_dilation

    @property
    def local_window(self) -> WindowDim:
        """The window on the range that was fetched."""
        if not self._are_alike:
            return replace(self.window, pad_low=0, pad_high=0, base_dilation=1)
        low, high = self._edges(self._local)
        return replace(self.window, pad_low=low, pad_high=high)

    def fetched(
        self, b: LocalBuilder, x: HloInstruction, cut: AxisSharding, fill: HloInstruction
    ) -> HloInstruction:
        """What a device's windows reach, with a scalar for what is outside of the array."""
        if self._are_alike:
            return fetch(b, x, cut, self.source, self._alike, fill)
        return fetch_dilated(b, x, cut, self.source, self._dilated, fill)


def reach(window: WindowDim, local: int) -> int:
    """From the beginning of the first of some windows to the end of the last one."""
    return (local - 1) * window.stride + (window.size - 1) * window.window_dilation + 1


def valid(size: int, local: int, count: int) -> list[int]:
    """How many elements of each part of a dimension are no padding."""
    return [min(max(size - place * local, 0), local) for place in range(count)]
