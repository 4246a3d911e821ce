"""All microkernels of transforms that are worth compiling before anybody asks for them.

They are those of lengths that are products of 2, 3, 5 and 7, and of convolutions, in the vectors
that long rows and many columns fill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from xladev.codegen.llvm import I64, PTR, VOID, FunctionBuilder, ModuleBuilder, Value
from xladev.hlo.dtype import F32, F64
from xladev.platforms.cpu.codegen.fourier.codelets import LONGEST_CODELET
from xladev.platforms.cpu.codegen.fourier.first import (
    FirstArguments,
    FirstForm,
    ShortArguments,
    call_first,
    call_short,
)
from xladev.platforms.cpu.codegen.fourier.kinds import FourierKind
from xladev.platforms.cpu.codegen.fourier.large import BLOCK
from xladev.platforms.cpu.codegen.fourier.passes import PassArguments, PassForm, call_pass
from xladev.platforms.cpu.codegen.fourier.places import Form
from xladev.platforms.cpu.codegen.fourier.products import (
    ProductArguments,
    ProductForm,
    call_product,
)
from xladev.platforms.cpu.codegen.fourier.real import (
    RealArguments,
    call_doubled,
    call_halved,
    call_whole,
)
from xladev.platforms.cpu.codegen.fourier.turning import TurnArguments, call_turn

_RADICES = 2, 3, 4, 5, 7, 8
_SHORT = 2, 3, 4, 5, 6, 7, 8, 16
_LEAST_LANES = 8
"""The shortest vectors that come compiled; radices of 8 begin most rows."""
_SHORTEST_LANES = 4
_C, _P = Form.PAIRS, Form.PLANES


def call_all_transforms(module: ModuleBuilder) -> None:
    """Adds a function that calls each microkernel; nobody is meant to run it."""
    b = module.function("transforms", VOID)
    for dtype in (F32, F64):
        widest = FourierKind.of(module.target, dtype, LONGEST_CODELET)
        kinds = dict.fromkeys((widest, widest.narrowed(_LEAST_LANES)))
        for kind in kinds:
            _call_rows(b, kind)
        _call_short_passes(b, widest.narrowed(_SHORTEST_LANES))
        _call_columns(b, widest)
        _call_rest(b, widest)
    b.ret()


def _call_rows(b: FunctionBuilder, kind: FourierKind) -> None:
    """Passes along rows, the later ones of columns among them."""
    for radix in _RADICES:
        for form in _C, _P:
            call_first(b, kind, FirstForm(radix, form), _made(b, FirstArguments))
            call_pass(b, kind, PassForm(radix, _P, form, False), _made(b, PassArguments))
        call_pass(b, kind, PassForm(radix, _P, _P, True), _made(b, PassArguments))
    for call in call_halved, call_doubled:
        call(b, kind, _made(b, RealArguments))


def _call_short_passes(b: FunctionBuilder, kind: FourierKind) -> None:
    """What follows a radix of 4."""
    for radix in _RADICES[:4]:
        call_pass(b, kind, PassForm(radix, _P, _P, True), _made(b, PassArguments))
        call_pass(b, kind, PassForm(radix, _P, _C, False), _made(b, PassArguments))


def _call_columns(b: FunctionBuilder, kind: FourierKind) -> None:
    """What only columns need."""
    for radix in _RADICES:
        call_pass(b, kind, PassForm(radix, _C, _P, True), _made(b, PassArguments))
        call_pass(b, kind, PassForm(radix, _C, _P, False), _made(b, PassArguments))
    for source, result in product((_C, _P), (_C, _P)):
        call_pass(b, kind, PassForm(1, source, result, False), _made(b, PassArguments))
    for source, result in (_C, _P), (_P, _P), (_P, _C):
        call_pass(b, kind, PassForm(1, source, result, True), _made(b, PassArguments))


def _call_rest(b: FunctionBuilder, kind: FourierKind) -> None:
    """Short rows, a single one among them, convolutions, first numbers, long rows."""
    for n in _SHORT:
        call_short(b, kind, n, _made(b, ShortArguments))
        single = PassForm(n, _C, _C, False)
        call_pass(b, kind.narrowed(1), single, _made(b, PassArguments))
    for source, result in (_C, _P), (_P, _P), (_P, _C):
        call_product(b, kind, ProductForm(source, result), _made(b, ProductArguments))
    first = PassForm(1, _P, _C, False)
    call_pass(b, kind.narrowed(1), first, _made(b, PassArguments))
    call_whole(b, kind, _made(b, RealArguments))
    call_turn(b, kind.narrowed(BLOCK), _made(b, TurnArguments))


_POINTERS = frozenset(
    {"source", "source_imaginary", "result", "result_imaginary", "table", "factors", "spectrum",
     "real", "imaginary", "outer", "inner"}
)  # fmt: skip


def _made(b: FunctionBuilder, of: Callable[..., Any]) -> Any:
    """Arguments of the right types."""
    names: Sequence[str] = of._fields  # type: ignore[attr-defined]
    null, zero = Value("null", PTR), b.const(I64, 0)
    return of(*(null if name in _POINTERS else zero for name in names))
