"""Fusion: which instructions become one kernel. The names that backends use are here."""

from xladev.compiler.fusion.fusion_pipeline import fusion_passes
from xladev.compiler.fusion.instruction_fusion import Fusion, KernelNames, fused_group

__all__ = ["Fusion", "KernelNames", "fused_group", "fusion_passes"]
