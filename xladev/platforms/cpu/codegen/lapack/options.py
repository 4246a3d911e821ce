"""What a call of LAPACK is asked for: sizes of one matrix, and LAPACK's characters."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from xladev.hlo.custom_calls.backend_config import config_of, letter
from xladev.hlo.custom_calls.solvers import eigh_options
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes

_TRANS = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


@dataclass(frozen=True, slots=True)
class Options:
    """Of one matrix of the stack.

    Attributes:
        rows, columns: of the first operand, if that is a matrix.
        reflectors: how many, if the second operand has their scales.
        sides: rows and columns of the last operand.
        sizes: elements of each result.
        uplo, side, trans, diag, mode, left, right: LAPACK's characters.
        transpose: whether Q* is wanted rather than Q.
        low, high: of `gehrd`.
    """

    rows: int
    columns: int
    reflectors: int
    sides: tuple[int, int]
    sizes: tuple[int, ...]
    uplo: str = "L"
    side: str = "L"
    trans: str = "N"
    diag: str = "N"
    mode: str = "A"
    left: str = "V"
    right: str = "V"
    transpose: bool = False
    low: int = 1
    high: int = 0


def options_of(i: HloInstruction, batch_rank: int) -> Options:
    """The options of a custom call or opcode."""
    dims = [operand.shape.dims[batch_rank:] for operand in i.operands]
    rows, columns = _two(dims[0])
    return Options(
        rows=rows,
        columns=columns,
        reflectors=dims[1][0] if len(dims) > 1 and len(dims[1]) == 1 else 0,
        sides=_two(dims[-1]),
        sizes=tuple(prod(shape.dims[batch_rank:]) for shape in flattened_shapes(i.shape)),
        **_characters(i, columns),
    )


def _two(dims: tuple[int, ...]) -> tuple[int, int]:
    return (dims[0], dims[1]) if len(dims) > 1 else (dims[0], 1)


def _characters(i: HloInstruction, n: int) -> dict[str, Any]:
    if i.opcode == "cholesky":
        return {"uplo": _uplo(i["lower"])}
    if i.opcode == "triangular-solve":
        return {
            "uplo": _uplo(i["lower"]),
            "side": "L" if i["left_side"] else "R",
            "trans": _TRANS[i["transpose_a"]],
            "diag": "U" if i["unit_diagonal"] else "N",
        }
    if i["custom_call_target"] == "Eigh":
        return {"uplo": _uplo(eigh_options(i)["lower"])}
    return _configured(config_of(i), n)


def _uplo(is_lower: bool) -> str:
    return "L" if is_lower else "U"


def _configured(config: dict[str, Any], n: int) -> dict[str, Any]:
    """Those of a custom call of a routine of LAPACK, as JAX spells them."""
    side = letter(config, "side", "L")
    if "left" in config:
        side = "L" if config["left"] else "R"
    return {
        "uplo": letter(config, "uplo", "L"),
        "side": side,
        "trans": letter(config, "trans_x", "N"),
        "diag": letter(config, "diag", "N"),
        "mode": letter(config, "mode", "A"),
        "left": letter(config, "compute_left", "V"),
        "right": letter(config, "compute_right", "V"),
        "transpose": bool(config.get("transpose", False)),
        "low": int(config.get("low", 1)),
        "high": int(config.get("high", n)),
    }
