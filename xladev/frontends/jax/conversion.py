"""From what PJRT clients hand over to an HloModule.

JAX hands over a portable StableHLO artifact (format ``mlir``), torch_xla and others a serialized
HloModuleProto (``hlo``). The user's jaxlib converts the first to the second; it computes nothing.
"""

from __future__ import annotations

from xladev.errors import UnsupportedError
from xladev.frontends.jax import adapter
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module

MLIR = "mlir"
HLO = "hlo"


def read_program(code: bytes, form: str) -> HloModule:
    """The module in a PJRT_Program.

    Args:
        code: its bytes.
        form: ``mlir`` or ``hlo``.

    Raises:
        UnsupportedError: another format, or StableHLO without jaxlib.
        XladevError: the bytes are damaged.
    """
    if form == HLO:
        return read_module(code)
    if form != MLIR:
        raise UnsupportedError(f"PJRT programs of format {form!r} are not read", why="mlir or hlo")
    adapter.require_jaxlib()
    return read_module(adapter.hlo_proto(adapter.module_bytecode(code)))
