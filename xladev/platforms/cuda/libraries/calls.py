"""Library calls as data: what one call of a library is asked, in the library's own terms.

Matrices are column-major, as the libraries have them. A call travels in a `KernelCode` of format
`FORMAT`; either driver turns it into something that can be launched (`driver.libraries`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import prod
from types import MappingProxyType
from typing import Any

from xladev.errors import FormatError
from xladev.platforms.cuda.libraries.solver_calls import SOLVER_KINDS, SolverCall

FORMAT = "library"
"""Of the `KernelCode` of a library call."""
TARGET = "xladev.cuda.library"
"""Of the custom calls that stand for library calls while a program is compiled."""
WORKSPACE_LIMIT = 32 << 20
"""Most bytes of workspace of one call; what cuBLAS asks for on Hopper."""
CONVOLUTION_WORKSPACE_LIMIT = 256 << 20
"""The same of a convolution, whose plans may turn and widen whole operands."""


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """A column-major matrix in memory, or several of them.

    Attributes:
        dtype: HLO's name of the element type.
        rows, columns: its dimensions, as stored.
        leading: elements from one column to the next; at least ``rows``.
        stride: elements from one matrix of a batch to the next.
    """

    dtype: str
    rows: int
    columns: int
    leading: int
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Matmul:
    """``d = epilogue(op(a) op(b) + bias)`` by cuBLASLt.

    Buffers: a, b, the bias if the epilogue has one, d, then the workspace.

    Attributes:
        a, b, d: the matrices.
        transpose_a, transpose_b: ``N`` or ``T``.
        batch: how many products.
        compute: such as ``32F`` or ``32F_FAST_TF32``: what is accumulated in.
        epilogue: ``DEFAULT``, ``BIAS``, ``RELU``, ``RELU_BIAS``, ``GELU`` or ``GELU_BIAS``; a bias
            has an element for each row of ``d``, and its type.
        deterministic: the algorithm must not depend on a measurement.
    """

    a: MatrixOperand
    b: MatrixOperand
    d: MatrixOperand
    transpose_a: str
    transpose_b: str
    batch: int
    compute: str
    epilogue: str = "DEFAULT"
    deterministic: bool = False

    @property
    def inner(self) -> int:
        """Elements that are summed over."""
        return self.a.columns if self.transpose_a == "N" else self.a.rows

    @property
    def has_bias(self) -> bool:
        """Whether a bias is among the buffers."""
        return self.epilogue.endswith("BIAS")

    @property
    def workspace_nbytes(self) -> int:
        """Room for partial sums of eight parts of the inner dimension, within the limit."""
        wanted = 8 * 8 * self.d.rows * self.d.columns * self.batch
        return min(-(-wanted // 256) * 256, WORKSPACE_LIMIT)


@dataclass(frozen=True, slots=True)
class Fourier:
    """A batch of transforms over the last dimensions, without scaling, by cuFFT.

    Buffers: input, output, then the workspace if there is one: room for a copy of the input, which
    complex-to-real transforms overwrite.

    Attributes:
        kind: ``C2C``, ``R2C``, ``C2R``, or with Z and D for f64.
        forward: the sign of the exponent is negative.
        lengths: of the (real) transform, one to three, outermost first.
        batch: how many transforms.
    """

    kind: str
    forward: bool
    lengths: tuple[int, ...]
    batch: int

    @property
    def shortened(self) -> tuple[int, ...]:
        """Lengths of the complex side of a real transform."""
        return (*self.lengths[:-1], self.lengths[-1] // 2 + 1)

    @property
    def workspace_nbytes(self) -> int:
        """A copy of the input of a complex-to-real transform."""
        if self.kind not in ("C2R", "Z2D"):
            return 0
        count = self.batch
        for n in self.shortened:
            count *= n
        return count * (8 if self.kind == "C2R" else 16)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of cuDNN: batch, features, then two or three spatial dimensions.

    For a kernel: output features, input features of one group, then the spatial dimensions.

    Attributes:
        dtype: HLO's name of the element type.
        dims: sizes, in that order, however the elements are in memory.
        strides: elements from one index to the next, of each dimension.
    """

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.dims)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution, or the gradient of one, by cuDNN: `result` is `image` under `kernel`.

    Kernels are not reversed (cross-correlation). Buffers: `reads` in order, the bias if the
    epilogue has one, `writes`, then the workspace.

    Attributes:
        kind: ``FORWARD`` gives the result, ``BACKWARD_INPUT`` the image of a result and a kernel,
            ``BACKWARD_KERNEL`` the kernel of an image and a result.
        image, kernel, result: the tensors of the forward convolution, whatever is computed.
        strides, padding, dilations: of each spatial dimension, padding on both sides.
        compute: ``32F`` or ``32F_FAST_TF32``: what products are accumulated in.
        epilogue: ``DEFAULT``, ``BIAS``, ``RELU`` or ``RELU_BIAS``, of ``FORWARD`` alone; a bias has
            an element for each output feature, and the result's type.
        deterministic: the plan must not depend on a measurement, nor its results on the run.
    """

    kind: str
    image: Tensor
    kernel: Tensor
    result: Tensor
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]
    compute: str
    epilogue: str = "DEFAULT"
    deterministic: bool = False

    @property
    def reads(self) -> tuple[Tensor, Tensor]:
        """The operands."""
        return {
            "FORWARD": (self.image, self.kernel),
            "BACKWARD_INPUT": (self.result, self.kernel),
            "BACKWARD_KERNEL": (self.image, self.result),
        }[self.kind]

    @property
    def writes(self) -> Tensor:
        """What is computed."""
        return {
            "FORWARD": self.result,
            "BACKWARD_INPUT": self.image,
            "BACKWARD_KERNEL": self.kernel,
        }[self.kind]

    @property
    def groups(self) -> int:
        """Groups of features."""
        return self.image.dims[1] // self.kernel.dims[1]

    @property
    def has_bias(self) -> bool:
        """Whether a bias is among the buffers."""
        return self.epilogue.endswith("BIAS")

    @property
    def workspace_nbytes(self) -> int:
        """Room for all tensors in f32 twice, turned and as partial sums, within the limit."""
        wanted = 8 * (self.image.size + self.kernel.size + self.result.size) + (1 << 16)
        return min(-(-wanted // 256) * 256, CONVOLUTION_WORKSPACE_LIMIT)


@dataclass(frozen=True, slots=True)
class Cholesky:
    """Factors of a batch of matrices by cuSOLVER (potrf), in place behind a copy.

    Buffers: input, output, info (s32 for each matrix: 0, or the first minor that is not positive),
    then the workspace.

    Attributes:
        dtype: of the elements.
        order: of each matrix.
        batch: how many matrices.
        upper: the triangle, of the column-major matrix, that is read and written.
    """

    dtype: str
    order: int
    batch: int
    upper: bool

    @property
    def workspace_nbytes(self) -> int:
        """As potrf's bufferSize is bounded by in practice: the matrix, and blocks of 64 columns."""
        return _rounded(16 * (self.order * self.order + 64 * self.order + 1024))


@dataclass(frozen=True, slots=True)
class TriangularSolve:
    """Solutions of triangular systems by cuBLAS (trsm), in place behind a copy of ``b``.

    Buffers: a, b, output.

    Attributes:
        dtype: of the elements.
        rows, columns: of b, column-major.
        left: ``op(a) x = b``; otherwise ``x op(a) = b``.
        upper: the triangle of the column-major a.
        transpose: ``N``, ``T`` or ``C``.
        unit: the diagonal is taken as one.
        batch: how many systems.
    """

    dtype: str
    rows: int
    columns: int
    left: bool
    upper: bool
    transpose: str
    unit: bool
    batch: int

    @property
    def order(self) -> int:
        """Of a."""
        return self.rows if self.left else self.columns

    @property
    def workspace_nbytes(self) -> int:
        """None."""
        return 0


LibraryCall = Matmul | Convolution | Fourier | Cholesky | TriangularSolve | SolverCall
_PLAIN_KINDS = (Matmul, Convolution, Fourier, Cholesky, TriangularSolve)
_KINDS: Mapping[str, type[LibraryCall]] = MappingProxyType(
    {kind.__name__: kind for kind in (*_PLAIN_KINDS, *SOLVER_KINDS)}
)

SHARED: Mapping[type[LibraryCall], str] = MappingProxyType(
    {Fourier: "cufft", TriangularSolve: "cublas", Cholesky: "cusolver"}
    | dict.fromkeys(SOLVER_KINDS, "cusolver")
)
"""Libraries that may work in memory of their own: two calls of one name must not run at once."""


def _rounded(nbytes: int) -> int:
    return min(-(-nbytes // 256) * 256, WORKSPACE_LIMIT)


def write_call(call: LibraryCall) -> str:
    """A call as one line of JSON; equal calls give equal lines."""
    return json.dumps({"call": type(call).__name__, **asdict(call)}, separators=(",", ":"))


def read_call(data: bytes | str) -> LibraryCall:
    """The call that `write_call` wrote.

    Raises:
        FormatError: it is none.
    """
    try:
        found = json.loads(data)
        kind = _KINDS[found.pop("call")]
        return kind(**{f.name: _value(found.pop(f.name)) for f in fields(kind)}, **found)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise FormatError("a library call that cannot be read", why=repr(e)) from e


def _value(found: Any) -> Any:
    if isinstance(found, dict):
        part = Tensor if "dims" in found else MatrixOperand
        return part(**{name: _value(value) for name, value in found.items()})
    return tuple(found) if isinstance(found, list) else found
