"""The pass that asks libraries: opcodes become custom calls of `TARGET`, one for each library call.

What a library does not do of an opcode (scales, triangles, failures as NaN) is HLO around the call,
which generated kernels compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from xladev.compiler.support import Support, no
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.shape import array, tuple_of
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RewriteRule, RuleSet, rewrite
from xladev.passes.tuple_simplifier import TupleSimplifier
from xladev.platforms.cuda.attention import is_marked
from xladev.platforms.cuda.libraries.convolution import as_product, convolution_support
from xladev.platforms.cuda.libraries.convolution_forms import cudnn_support
from xladev.platforms.cuda.libraries.cudnn_calls import CudnnCalls, Refusal, no_refusal
from xladev.platforms.cuda.libraries.custom_calls import library_call, tell_libraries
from xladev.platforms.cuda.libraries.epilogues import add_bias, apply_gelu, apply_relu
from xladev.platforms.cuda.libraries.factorisations import factorisation_support, factorised
from xladev.platforms.cuda.libraries.fourier import as_fourier, fourier_support
from xladev.platforms.cuda.libraries.matmul import as_matmul, is_inner_first, matmul_support
from xladev.platforms.cuda.libraries.solvers import (
    as_cholesky,
    as_triangular_solve,
    solver_support,
)

SUPPORT: Mapping[str, Callable[[HloInstruction], Support]] = MappingProxyType(
    {
        "dot": matmul_support,
        "convolution": cudnn_support,
        "fft": fourier_support,
        "cholesky": solver_support,
        "triangular-solve": solver_support,
        "custom-call": factorisation_support,
    }
)
"""Opcodes that libraries compute, if these functions say so."""


def library_support(i: HloInstruction) -> Support:
    """Whether a library computes an instruction."""
    found = SUPPORT.get(i.opcode)
    return found(i) if found else no(f"no library computes {i.opcode}")


LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        "dot": "cublasLt",
        "convolution": "cudnn",
        "fft": "cufft",
        "cholesky": "cusolver",
        "triangular-solve": "cublas",
        "custom-call": "cusolver",
    }
)
"""The library behind each opcode."""


def _is_ours(i: HloInstruction) -> bool:
    return not is_marked(i) and bool(library_support(i))


@dataclass(frozen=True, slots=True)
class LibraryCalls(HloModulePass):
    """Makes library calls of what libraries compute.

    Attributes:
        allow_tf32: products of f32 may round their operands to tf32.
        deterministic: algorithms must not depend on measurements.
        opcodes: those whose libraries there are.
        refusal: why a library refuses a convolution; empty if it takes it, or cannot be asked.
    """

    name = "cuda-library-calls"
    allow_tf32: bool = False
    deterministic: bool = False
    opcodes: frozenset[str] = frozenset(LIBRARIES)
    refusal: Refusal = no_refusal

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        calls = [rule for opcode, rule in _CALLS.items() if opcode in self.opcodes]
        sweeps: list[Sequence[RewriteRule]] = [calls]
        if "convolution" in self.opcodes:
            sweeps += self._cudnn.sweeps()
        if "dot" in self.opcodes:
            sweeps += [
                (self._patches(),),
                (_arrange,),
                (self._product(),),
                (add_bias,),
                (apply_relu, apply_gelu),
            ]
        for rules in sweeps:
            module = RuleSet(rules, only_static=True).run(module)
        module = TupleSimplifier().run(module)
        tell_libraries(module)
        return module

    @property
    def _cudnn(self) -> CudnnCalls:
        return CudnnCalls(self.allow_tf32, self.deterministic, self.refusal)

    def _patches(self) -> RewriteRule:
        @rewrite(m.Opcode("convolution").where(_is_product, "a convolution that is a product"))
        def multiply_patches(r: Rewriter, root: HloInstruction) -> HloInstruction:
            """convolution = patches of the input times the kernel."""
            asked = "convolution" in self.opcodes
            why = self._cudnn.why_not(root) if asked else "cuDNN is missing, or not wanted"
            return as_product(r, root, why)

        return multiply_patches

    def _product(self) -> RewriteRule:
        @rewrite(m.Opcode("dot").where(_is_ours, "a product that cuBLASLt has"))
        def call_cublaslt(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
            """dot = a matrix product of the library."""
            call = as_matmul(root, allow_tf32=self.allow_tf32, deterministic=self.deterministic)
            if call is None:
                return None
            lhs, rhs = root.operands
            return library_call(r, root.shape, (rhs, lhs), call)

        return call_cublaslt


def _is_product(i: HloInstruction) -> bool:
    return bool(convolution_support(i))


@rewrite(m.Opcode("dot").where(_is_ours, "a product that cuBLASLt has"))
def _arrange(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
    """A dot whose operands are not as matrices is one of transposed operands."""
    if as_matmul(root) is not None:
        return None
    dims = DotDims.of(root)
    lhs, rhs = root.operands
    left = (*dims.lhs_batch, *dims.lhs_free(lhs.shape.rank), *dims.lhs_contracting)
    right = (*dims.rhs_batch, *dims.rhs_free(rhs.shape.rank), *dims.rhs_contracting)
    batch, summed = len(dims.lhs_batch), len(dims.lhs_contracting)
    by_side = (
        ({"lhs": left}, {"rhs": right}, {"lhs": left, "rhs": right})
        if not is_inner_first(root)
        else ({"lhs": left, "rhs": right},)
    )
    for orders in by_side:
        made = _transposed(r, root, orders, batch, summed)
        if as_matmul(made) is not None:
            return made
    return None


def _transposed(
    r: Rewriter, dot: HloInstruction, orders: Mapping[str, tuple[int, ...]], batch: int, summed: int
) -> HloInstruction:
    """A dot with some operands in the order batch, kept, summed."""
    operands, attrs = list(dot.operands), dict(dot.attrs)
    for side, order in orders.items():
        place = ("lhs", "rhs").index(side)
        if order != tuple(range(len(order))):
            operands[place] = r.transpose(operands[place], order)
        attrs[f"{side}_batch_dims"] = tuple(range(batch))
        attrs[f"{side}_contracting_dims"] = tuple(range(len(order) - summed, len(order)))
    return r.op("dot", *operands, shape=dot.shape.without_layout(), **attrs)


@rewrite(m.Opcode("fft").where(_is_ours, "a transform that cuFFT has"))
def _call_cufft(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """fft = a transform of the library, scaled if it is an inverse one."""
    call = as_fourier(root)
    made = library_call(r, root.shape.without_layout(), root.operands, call)
    return made if call.forward else r.multiply(made, 1.0 / prod(call.lengths))


@rewrite(m.Opcode("triangular-solve").where(_is_ours, "a system that cuBLAS solves"))
def _call_trsm(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """triangular-solve = a solution by the library."""
    return library_call(r, root.shape.without_layout(), root.operands, as_triangular_solve(root))


@rewrite(m.Opcode("cholesky").where(_is_ours, "factors that cuSOLVER has"))
def _call_potrf(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """cholesky = factors by the library: one triangle of them, NaN where there are none."""
    shape = root.shape.without_layout()
    batch = shape.dims[:-2]
    both = tuple_of(shape, array(dt.S32, batch))
    factors, info = r.parts(library_call(r, both, root.operands, as_cholesky(root)))
    rank = shape.rank
    row, column = (r.iota(dt.S32, shape.dims, d) for d in (rank - 2, rank - 1))
    kept = r.compare("GE" if root["lower"] else "LE", row, column)
    failed = r.broadcast(r.compare("NE", info, 0), shape.dims, range(rank - 2))
    return r.select(failed, float("nan"), r.select(kept, factors, 0))


@rewrite(m.Opcode("custom-call").where(_is_ours, "a factorisation that cuSOLVER has"))
def _call_cusolver(r: Rewriter, root: HloInstruction) -> HloInstruction:
    """A custom call of LAPACK = factors, eigenvalues or singular values by the library."""
    values = factorised(r, root)
    return r.op("tuple", *values) if root.shape.is_tuple else values[0]


_CALLS: Mapping[str, RewriteRule] = MappingProxyType(
    {
        "fft": _call_cufft,
        "triangular-solve": _call_trsm,
        "cholesky": _call_potrf,
        "custom-call": _call_cusolver,
    }
)
