"""A typed view of a convolution's attributes."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.attributes import ConvDims, Window
from xladev.hlo.opdef import InstructionView, OpCall


@dataclass(frozen=True, slots=True)
class ConvolutionDims:
    """What a convolution multiplies with what (``ConvGeneralDilated`` of XLA's semantics).

    Attributes:
        labels: dimensions of input, kernel and output, by what they are.
        window: how the kernel slides; one entry for each spatial dimension.
        feature_groups: parts of the input features; each makes its part of the output's.
        batch_groups: parts of the input's batch; each makes its part of the output features. One
            of the two counts is 1.
    """

    labels: ConvDims
    window: Window
    feature_groups: int
    batch_groups: int

    @staticmethod
    def of(source: OpCall | InstructionView) -> ConvolutionDims:
        """Those of a convolution."""
        groups = source["feature_group_count"], source["batch_group_count"]
        return ConvolutionDims(source["dim_labels"], source["window"], *groups)

    @property
    def groups(self) -> int:
        """Number of groups of either kind."""
        return self.feature_groups * self.batch_groups

    @property
    def is_pointwise(self) -> bool:
        """True if each position of the window is one element of the input, in order."""
        return all(
            (w.size, w.stride, w.pad_low, w.pad_high, w.base_dilation) == (1, 1, 0, 0, 1)
            for w in self.window
        )
