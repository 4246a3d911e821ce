"""Factorisations as data: what one call of cuSOLVER is asked, in its own terms (column-major).

Matrices of a batch are one behind the other, without gaps between columns. A call leaves its
inputs as they are. Its workspace begins with room for an info that nobody reads, then copies of
matrices that the library overwrites; behind them is what the library asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

INFO_NBYTES = 256
"""At the start of each workspace."""
ITEM_NBYTES: Mapping[str, int] = MappingProxyType({"f32": 4, "f64": 8, "c64": 8, "c128": 16})
"""Element types that cuSOLVER has."""
REAL_NBYTES: Mapping[str, int] = MappingProxyType({"f32": 4, "f64": 8, "c64": 4, "c128": 8})
"""Size of the real numbers that belong to each."""


def _whole(nbytes: int) -> int:
    return -(-nbytes // 256) * 256


@dataclass(frozen=True, slots=True)
class _Call:
    """What all calls have: a type, and a workspace.

    Attributes:
        dtype: of the elements.
    """

    dtype: str

    @property
    def held_nbytes(self) -> int:
        """Bytes of the workspace before what is the library's."""
        return INFO_NBYTES

    @property
    def asked_elements(self) -> int:
        """What the library may ask for."""
        raise NotImplementedError

    @property
    def workspace_nbytes(self) -> int:
        """Bytes of the whole workspace."""
        return self.held_nbytes + _whole(ITEM_NBYTES[self.dtype] * self.asked_elements)


@dataclass(frozen=True, slots=True)
class LuFactorsCall(_Call):
    """LU factors with partial pivoting (getrf).

    Buffers: input, output, pivots (s32, from 1), info (s32 for each matrix: the first pivot that is
    zero, from 1, or 0), then the workspace.

    Attributes:
        rows, columns: of each matrix.
        batch: how many matrices.
    """

    rows: int
    columns: int
    batch: int

    @property
    def pivots(self) -> int:
        """Of each matrix."""
        return min(self.rows, self.columns)

    @property
    def asked_elements(self) -> int:
        """Room for the matrix and panels of 64."""
        m, n = self.rows, self.columns
        return m * n + 64 * (m + n) + 1024


@dataclass(frozen=True, slots=True)
class QrFactors(_Call):
    """QR factors, packed (geqrf).

    Buffers: input, output, scales of the reflectors, then the workspace.

    Attributes:
        rows, columns: of each matrix.
        batch: how many matrices.
    """

    rows: int
    columns: int
    batch: int

    @property
    def reflectors(self) -> int:
        """Of each matrix."""
        return min(self.rows, self.columns)

    @property
    def asked_elements(self) -> int:
        """Room for panels of 128."""
        return 128 * (self.rows + self.columns) + 1024


@dataclass(frozen=True, slots=True)
class QMatrix(_Call):
    """The first columns of Q from packed reflectors (orgqr, ungqr).

    Buffers: packed reflectors, their scales, output, then the workspace.

    Attributes:
        rows, columns: of the packed matrix, and of the output; no more columns than rows.
        reflectors: scales that there are; no more than columns.
        batch: how many matrices.
    """

    rows: int
    columns: int
    reflectors: int
    batch: int

    @property
    def asked_elements(self) -> int:
        """Room for panels of 128."""
        return 128 * (self.rows + self.columns) + 1024


@dataclass(frozen=True, slots=True)
class QProduct(_Call):
    """Q C, Q* C, C Q or C Q* (ormqr, unmqr).

    Buffers: packed reflectors, their scales, C, output, then the workspace.

    Attributes:
        rows, columns: of C.
        packed_columns: of the packed matrix; it has as many rows as Q.
        reflectors: scales that there are.
        left: Q stands left of C.
        adjoint: Q* rather than Q.
        batch: how many products.
    """

    rows: int
    columns: int
    packed_columns: int
    reflectors: int
    left: bool
    adjoint: bool
    batch: int

    @property
    def order(self) -> int:
        """Of Q."""
        return self.rows if self.left else self.columns

    @property
    def asked_elements(self) -> int:
        """Room for panels of 128."""
        return 128 * (self.rows + self.columns + 128) + 1024


@dataclass(frozen=True, slots=True)
class Eigenvectors(_Call):
    """Eigenvectors and ascending eigenvalues of Hermitian matrices.

    Buffers: input, eigenvectors, eigenvalues (real), info (s32 for each matrix: 0 for success),
    then the workspace.

    Attributes:
        order: of each matrix.
        batch: how many matrices.
        upper: the triangle that is read.
        method: ``syevd``, divide and conquer for one matrix after the other, or ``syevjBatched``,
            Jacobi's for all of them at once.
    """

    order: int
    batch: int
    upper: bool
    method: str

    @property
    def asked_elements(self) -> int:
        """Room for three matrices (of each that is worked on at once) and panels of 64."""
        n, at_once = self.order, self.batch if self.method == "syevjBatched" else 1
        return at_once * 3 * n * n + 64 * n + 1024


@dataclass(frozen=True, slots=True)
class SingularValues(_Call):
    """Singular values, descending, and vectors.

    Buffers: input, singular values (real), left vectors U, right ones, info (s32 for each matrix:
    0 for success), then the workspace. The right vectors are V* from ``gesvd``, otherwise V.

    Attributes:
        rows, columns: of each matrix.
        batch: how many matrices.
        method: ``gesvd``, by QR steps, for no more columns than rows; ``gesvdj``, Jacobi's for one
            matrix after the other; ``gesvdjBatched``, Jacobi's for all of them at once, of up to 32
            rows and columns, whose U and V are always square.
        vectors: whether they are wanted; if not, nothing is said of what their buffers hold.
        full: U and V are square.
    """

    rows: int
    columns: int
    batch: int
    method: str
    vectors: bool
    full: bool

    @property
    def values(self) -> int:
        """Of each matrix."""
        return min(self.rows, self.columns)

    @property
    def left(self) -> int:
        """Columns of U."""
        return self.rows if self.full else self.values

    @property
    def right(self) -> int:
        """Columns of V."""
        return self.columns if self.full else self.values

    @property
    def copied(self) -> int:
        """Matrices that are copied at once."""
        return self.batch if self.method == "gesvdjBatched" else 1

    @property
    def held_nbytes(self) -> int:
        """Bytes of the workspace before what is the library's: info, and copies of matrices."""
        copies = self.copied * self.rows * self.columns
        return INFO_NBYTES + _whole(ITEM_NBYTES[self.dtype] * copies)

    @property
    def asked_elements(self) -> int:
        """Room for two matrices, U and V (of each that is worked on at once), and panels of 64."""
        m, n = self.rows, self.columns
        return self.copied * (2 * m * n + m * m + n * n) + 64 * (m + n) + 1024


SolverCall = LuFactorsCall | QrFactors | QMatrix | QProduct | Eigenvectors | SingularValues
SOLVER_KINDS: tuple[type[SolverCall], ...] = (
    LuFactorsCall, QrFactors, QMatrix, QProduct, Eigenvectors, SingularValues,
)  # fmt: skip
WAITING = (Eigenvectors, SingularValues)
"""Calls that may wait for their own results on the host, so that no graph can record them."""
