"""Sub-byte normalisation: integers under a byte are only stored; arithmetic on them is in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloModule
from xladev.passes.expand import expand_where
from xladev.passes.expansions.widening import widened, wider_integer
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class SubByteNormalization(HloModulePass):
    """Puts arithmetic on s4, u4, s2, u2, s1 and u1 between conversions to and from s8 or u8."""

    name = "sub-byte-normalization"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return expand_where(module, lambda i: widened(i, wider_integer))
