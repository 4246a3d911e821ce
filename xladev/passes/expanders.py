"""The table of expanders: what an opcode or custom call is in simpler opcodes.

An expander gives a computation whose parameters are the instruction's operands and whose root has
its shape, or None where it does not apply. The compiler asks here for what a device rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.opset import OPSET
from xladev.passes.expansions.batch_norm import (
    expand_batch_norm_grad,
    expand_batch_norm_inference,
    expand_batch_norm_training,
)
from xladev.passes.expansions.bitcast import expand_bitcast
from xladev.passes.expansions.cholesky import expand_cholesky
from xladev.passes.expansions.comparison import expand_compare
from xladev.passes.expansions.convolution import expand_convolution
from xladev.passes.expansions.custom_call import expand_known_target, expand_registered
from xladev.passes.expansions.dimension_size import (
    expand_dynamic_reshape,
    expand_get_dimension_size,
    expand_set_dimension_size,
)
from xladev.passes.expansions.dot import expand_dot
from xladev.passes.expansions.fft import expand_fft
from xladev.passes.expansions.indexing import expand_gather, expand_scatter
from xladev.passes.expansions.logistic import expand_logistic
from xladev.passes.expansions.ragged_dot import expand_ragged_dot
from xladev.passes.expansions.random_bits import expand_rng_bit_generator
from xladev.passes.expansions.reduce import expand_reduce
from xladev.passes.expansions.reduce_window import expand_reduce_window
from xladev.passes.expansions.scaled_dot import expand_scaled_dot
from xladev.passes.expansions.scan import expand_scan
from xladev.passes.expansions.select_and_scatter import expand_select_and_scatter
from xladev.passes.expansions.shuffle import expand_shuffle
from xladev.passes.expansions.stochastic_convert import expand_stochastic_convert
from xladev.passes.expansions.topk import expand_topk
from xladev.passes.expansions.triangular_solve import expand_triangular_solve
from xladev.passes.expansions.widening import can_widen, expand_wider

Expander = Callable[[HloInstruction], HloComputation | None]

OWN_EXPANDERS: Mapping[str, tuple[Expander, ...]] = MappingProxyType(
    {
        "batch-norm-grad": (expand_batch_norm_grad,),
        "batch-norm-inference": (expand_batch_norm_inference,),
        "batch-norm-training": (expand_batch_norm_training,),
        "bitcast": (expand_bitcast,),
        "cholesky": (expand_cholesky,),
        "compare": (expand_compare,),
        "convolution": (expand_convolution,),
        "custom-call": (expand_registered, expand_known_target),
        "dot": (expand_dot,),
        "dynamic-reshape": (expand_dynamic_reshape,),
        "fft": (expand_fft,),
        "gather": (expand_gather,),
        "get-dimension-size": (expand_get_dimension_size,),
        "logistic": (expand_logistic,),
        "ragged-dot": (expand_ragged_dot,),
        "reduce": (expand_reduce,),
        "reduce-window": (expand_reduce_window,),
        "rng-bit-generator": (expand_rng_bit_generator,),
        "scaled-dot": (expand_scaled_dot,),
        "scan": (expand_scan,),
        "scatter": (expand_scatter,),
        "select-and-scatter": (expand_select_and_scatter,),
        "set-dimension-size": (expand_set_dimension_size,),
        "shuffle": (expand_shuffle,),
        "stochastic-convert": (expand_stochastic_convert,),
        "topk": (expand_topk,),
        "triangular-solve": (expand_triangular_solve,),
    }
)
"""Expanders that know an opcode."""

EXPANDERS: Mapping[str, Sequence[Expander]] = MappingProxyType(
    {
        name: (*OWN_EXPANDERS.get(name, ()), *((expand_wider,) if can_widen(op) else ()))
        for name, op in OPSET.items()
        if name in OWN_EXPANDERS or can_widen(op)
    }
)
"""Expanders to try, in order, by opcode: its own, then the same opcode on wider types."""
