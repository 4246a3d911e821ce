"""Rewrite rules that make calls of cuDNN of convolutions, with a bias and ReLU behind them.

What the call does not do (padding that differs between the sides, a reversed kernel, another order
of dimensions) is HLO around it, which generated kernels compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.passes import pattern as m
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite
from xladev.platforms.cuda.libraries.calls import Convolution, LibraryCall
from xladev.platforms.cuda.libraries.convolution_forms import (
    ConvolutionForm,
    cudnn_support,
    form_of,
    reversed_before,
    with_epilogue,
)
from xladev.platforms.cuda.libraries.custom_calls import library_call

Refusal = Callable[[LibraryCall], str]


def no_refusal(call: LibraryCall) -> str:
    """Of a library that nobody can ask: empty."""
    return ""


def _is_cudnns(i: HloInstruction) -> bool:
    return bool(cudnn_support(i))


_CONVOLUTION = m.Opcode("convolution", capture="x").one_use().where(_is_cudnns, "one of cuDNN's")
_BIASED = m.Add(_CONVOLUTION, m.Broadcast(m.Op("bias"), capture="wide"))


@dataclass(frozen=True, slots=True)
class CudnnCalls:
    """The rules.

    Attributes:
        allow_tf32: f32 may be rounded to tf32.
        deterministic: neither plan nor result may depend on the run.
        refusal: why the library refuses a call; empty if it takes it, or cannot be asked.
    """

    allow_tf32: bool = False
    deterministic: bool = False
    refusal: Refusal = no_refusal

    def sweeps(self) -> list[Sequence[RewriteRule]]:
        """The longest epilogue first: a convolution that became a call gets none any more."""
        return [(self._biased_relu(), self._relu()), (self._biased(),), (self._plain(),)]

    def why_not(self, i: HloInstruction) -> str:
        """Why a convolution is left to others."""
        return cudnn_support(i).reason or self.refusal(self._form(i).call)

    def _form(self, i: HloInstruction) -> ConvolutionForm:
        return form_of(i, allow_tf32=self.allow_tf32, deterministic=self.deterministic)

    def _plain(self) -> RewriteRule:
        @rewrite(m.Opcode("convolution").where(_is_cudnns, "a convolution that cuDNN has"))
        def call_cudnn(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
            """convolution = a convolution of the library."""
            form = self._form(root)
            return None if self.refusal(form.call) else _called(r, root, form, form.call)

        return call_cudnn

    def _with_bias(
        self, r: Rewriter, x: HloInstruction, bias: HloInstruction, wide: HloInstruction, name: str
    ) -> HloInstruction | None:
        form = self._form(x)
        call = with_epilogue(form, name)
        is_of_features = tuple(wide["dimensions"]) == (x["dim_labels"].output_feature,)
        if call is None or not is_of_features or self.refusal(call):
            return None
        return _called(r, x, form, call, (bias,))

    def _biased(self) -> RewriteRule:
        @rewrite(_BIASED)
        def add_bias(
            r: Rewriter,
            root: HloInstruction,
            x: HloInstruction,
            bias: HloInstruction,
            wide: HloInstruction,
        ) -> HloInstruction | None:
            """A convolution and an element for each feature = a convolution with a bias."""
            return self._with_bias(r, x, bias, wide, "BIAS")

        return add_bias

    def _biased_relu(self) -> RewriteRule:
        @rewrite(m.Maximum(_BIASED.one_use(), m.All(0)))
        def add_bias_and_relu(
            r: Rewriter,
            root: HloInstruction,
            x: HloInstruction,
            bias: HloInstruction,
            wide: HloInstruction,
        ) -> HloInstruction | None:
            """The larger of such a sum and zero = a convolution with a bias and ReLU."""
            return self._with_bias(r, x, bias, wide, "RELU_BIAS")

        return add_bias_and_relu

    def _relu(self) -> RewriteRule:
        @rewrite(m.Maximum(_CONVOLUTION, m.All(0)))
        def add_relu(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
            """The larger of a convolution and zero = a convolution with ReLU."""
            form = self._form(x)
            call = with_epilogue(form, "RELU")
            return None if call is None or self.refusal(call) else _called(r, x, form, call)

        return add_relu


def _called(
    r: Rewriter,
    i: HloInstruction,
    form: ConvolutionForm,
    call: Convolution,
    more: Sequence[HloInstruction] = (),
) -> HloInstruction:
    """A convolution as a call, with its arrays turned to how the library takes them."""
    operands = (_first(r, i, form), _second(r, i, form))
    dims = [i.shape.dims[n] for n in form.result[:2]] + [axis.made for axis in form.axes]
    made = library_call(
        r,
        array(i.shape.element_type, [dims[n] for n in form.order]),
        (*operands, *more),
        call,
    )
    layout = [form.result[n] for n in form.order]
    turned = r.transpose(made, [layout.index(n) for n in range(len(layout))])
    return r.pad(turned, _padding(form.result, [axis.trim for axis in form.axes]))


def _first(r: Rewriter, i: HloInstruction, form: ConvolutionForm) -> HloInstruction:
    padding = _padding(form.lhs, [axis.edges for axis in form.axes])
    return r.transpose(r.pad(i.operands[0], padding), [form.lhs[n] for n in form.order])


def _second(r: Rewriter, i: HloInstruction, form: ConvolutionForm) -> HloInstruction:
    kernel = i.operands[1]
    kernel = kernel.operands[0] if reversed_before(i) else kernel
    kernel = r.reverse(kernel, *form.reversed_dims) if form.reversed_dims else kernel
    groups = i["feature_group_count"]
    if form.call.kind != "BACKWARD_INPUT" or groups == 1:
        return r.transpose(kernel, [form.rhs[n] for n in form.order])
    return r.transpose(_features_in_groups(r, r.transpose(kernel, form.rhs), groups), form.order)


def _features_in_groups(r: Rewriter, kernel: HloInstruction, groups: int) -> HloInstruction:
    """``[K / groups, C, ...]``, groups within C, as ``[K, C / groups, ...]``, groups within K."""
    outputs, inputs, *window = kernel.shape.dims
    split = r.reshape(kernel, (outputs, groups, inputs // groups, *window))
    turned = r.transpose(split, (1, 0, 2, *range(3, split.shape.rank)))
    return r.reshape(turned, (groups * outputs, inputs // groups, *window))


def _padding(
    dimensions: Sequence[int], edges: Sequence[tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """Padding of an array whose spatial dimensions are those from the third on."""
    found = [(0, 0, 0)] * len(dimensions)
    for n, (low, high) in zip(dimensions[2:], edges, strict=True):
        found[n] = (low, high, 0)
    return found
