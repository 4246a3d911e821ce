"""Calls of LAPACK as one kernel, on memory that holds garbage before; and random matrices."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo import dtype as dt
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.aligned import address_of, aligned
from xladev.platforms.cpu.codegen.lapack.kernels import lapack_workspace_nbytes
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits
from xladev.platforms.cpu.lapack.routines import LIBRARY_PREFIX
from xladev.platforms.cpu.lapack.threads import library_symbols

DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
GARBAGE = 0xFF
"""Each byte of workspace and results beforehand: NaN, as floats."""


def shape(dtype: Any, *dims: int) -> str:
    """A shape, as HLO spells it."""
    return f"{dt.by_numpy(np.dtype(dtype)).name}[{','.join(map(str, dims))}]"


def call_text(result: str, operands: list[str], what: str) -> str:
    """A module whose root is an opcode or custom call of all parameters."""
    lines = [f"p{n} = {text} parameter({n})" for n, text in enumerate(operands)]
    opcode, _, rest = what.partition(" ")
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    lines.append(f"ROOT r = {result} {opcode}({names}), {rest}")
    return "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}"


def target(name: str, config: str = "{}") -> str:
    """A custom call, for `call_text`."""
    return f'custom-call custom_call_target="{name}", backend_config="{config}"'


def run_stack(result: str, what: str, *operands: np.ndarray) -> list[np.ndarray]:
    """Results of a call as one kernel; garbage is where they are written, and in the workspace."""
    shapes = [shape(o.dtype, *o.shape) for o in operands]
    return run_text(call_text(result, shapes, what), *operands)


def run_text(text: str, *operands: np.ndarray) -> list[np.ndarray]:
    """As `run_stack`, of a module."""
    spec = KernelSpec("kernel", parse_module(text).entry)
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, spec)
    imports = library_symbols(builder.declared(LIBRARY_PREFIX), "a test")
    code = LoadedObject("m", compile_text("m", str(builder), 1), ("kernel",), imports)
    results = [np.empty(s.dims, s.element_type.np) for s in spec.results]
    for each in results:
        each.view(np.uint8).reshape(-1)[:] = GARBAGE if each.ndim else 0
    workspace = aligned(bytes([GARBAGE]) * lapack_workspace_nbytes(spec))
    arrays = [np.array(o, order="C") for o in operands]
    places = [a.ctypes.data for a in (*arrays, *results)] + [address_of(workspace)]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(places))
    kind(code.address("kernel"))(*places)
    assert all(
        (a == b).all() for a, b in zip(arrays, operands, strict=True) if not np.isnan(a).any()
    )
    return results


class Stacks:
    """Random stacks of matrices of one of LAPACK's types.

    Attributes:
        letter: LAPACK's.
        dtype: of the elements; ``real``, of their parts.
        atol: what rounding may do to elements of about 1, of matrices of a few rows.
    """

    def __init__(self, letter: str, seed: int) -> None:
        self.letter, self.dtype = letter, np.dtype(DTYPES[letter])
        self.real = np.dtype(np.float32 if letter in "sc" else np.float64)
        self.atol = 500 * float(np.finfo(self.dtype).eps)
        self._rng = np.random.default_rng(seed)

    def random(self, *dims: int) -> Any:
        """Normal elements."""
        values = self._rng.normal(size=dims)
        if self.dtype.kind == "c":
            values = values + 1j * self._rng.normal(size=dims)
        return values.astype(self.dtype)

    def hermitian(self, *dims: int) -> Any:
        """Indefinite Hermitian matrices."""
        a = self.random(*dims)
        return a + adjoint(a)

    def positive(self, *dims: int) -> Any:
        """Hermitian matrices whose eigenvalues are 1 at least."""
        a = self.random(*dims)
        return (a @ adjoint(a) + np.eye(dims[-1])).astype(self.dtype)

    def shape(self, *dims: int) -> str:
        """Of elements."""
        return shape(self.dtype, *dims)

    def reals(self, *dims: int) -> str:
        """Of real numbers."""
        return shape(self.real, *dims)

    def close(self, got: Any, want: Any) -> None:
        """Compares values whose largest is of any size."""
        scale = max(1.0, float(np.abs(want).max(initial=0.0)))
        np.testing.assert_allclose(got, want, rtol=0, atol=self.atol * scale)


def adjoint(a: Any) -> Any:
    """Conjugate transposes."""
    return np.conj(np.swapaxes(a, -1, -2))


def integers(*dims: int) -> str:
    """A shape of s32."""
    return shape(np.int32, *dims)


def together(*shapes: str) -> str:
    """A tuple's shape."""
    return f"({', '.join(shapes)})"
