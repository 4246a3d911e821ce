"""Float normalisation: narrow floats are only stored; arithmetic on them is in f32."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.dtype import PrimitiveType, by_name
from xladev.hlo.ir import HloModule
from xladev.passes.expand import expand_where
from xladev.passes.expansions.precision import wider_float
from xladev.passes.expansions.widening import widened
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class FloatNormalization(HloModulePass):
    """Puts arithmetic on narrow floats between conversions to and from f32.

    The compiler does the same on its own, one instruction at a time, for what a device rejects.

    Attributes:
        types: which, joined by ``+``, such as ``bf16+f16``; all under 32 bits if empty.
    """

    name = "float-normalization"
    types: str = ""

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        chosen = {by_name(name) for name in self.types.split("+")} if self.types else None

        def widths(element_type: PrimitiveType) -> PrimitiveType:
            wanted = chosen is None or element_type in chosen
            return wider_float(element_type) if wanted else element_type

        return expand_where(module, lambda i: widened(i, widths))
