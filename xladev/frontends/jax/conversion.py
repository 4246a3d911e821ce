"""From what PJRT clients hand over to an HloModule.

JAX hands over a portable StableHLO artifact (format ``mlir``), torch_xla and others a serialized
HloModuleProto (``hlo``). The user's jaxlib converts the first to the second; it computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.errors import UnsupportedError
from xladev.frontends.jax import adapter
from xladev.frontends.jax.entry_interface import (
    EntryInterface,
    read_place,
    with_entry_layout,
    with_places,
)
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.proto.shapes import write_program_shape
from xladev.hlo.proto.wire import varint

MLIR = "mlir"
HLO = "hlo"
HLO_WITH_CONFIG = "hlo_with_config"


@dataclass(frozen=True, slots=True)
class ShownProgram:
    """A program as PJRT clients ask to see it.

    Attributes:
        form: ``mlir`` or ``hlo_with_config``.
        code: MLIR, or a serialized HloModuleProtoWithConfig.
    """

    form: str
    code: bytes


@dataclass(frozen=True, slots=True)
class ReadProgram:
    """What a client handed over.

    Attributes:
        module: as xladev compiles it.
        interface: where arguments and results lie.
        shown: what clients are shown of it.
    """

    module: HloModule
    interface: EntryInterface
    shown: ShownProgram


def read_program(code: bytes, form: str) -> ReadProgram:
    """The program in a PJRT_Program.

    Args:
        code: its bytes.
        form: ``mlir`` or ``hlo``.

    Raises:
        UnsupportedError: another format, or StableHLO without jaxlib.
        XladevError: the bytes are damaged.
    """
    if form == HLO:
        module = read_module(code)
        return ReadProgram(module, EntryInterface(), _with_config(module))
    if form != MLIR:
        raise UnsupportedError(f"PJRT programs of format {form!r} are not read", why="mlir or hlo")
    adapter.require_jaxlib()
    bytecode, *attributes = adapter.read_stablehlo(code)
    interface = EntryInterface(*(tuple(map(read_place, given)) for given in attributes))
    module = read_module(adapter.hlo_proto(bytecode))
    if not interface.has_orders:
        return ReadProgram(module, interface, ShownProgram(MLIR, code))
    shown = _with_config(with_entry_layout(module, interface))
    return ReadProgram(with_places(module, interface), interface, shown)


def _with_config(module: HloModule) -> ShownProgram:
    """HLO with its interface.

    Source: HloModuleProtoWithConfig (module 1, config 2) and HloModuleConfigProto
    (entry_computation_layout 1) of XLA's `xla/service/hlo.proto` and `xla/xla.proto`.
    """
    names = [p.name for p in module.entry.parameters]
    config = _field(1, write_program_shape(module.entry_layout, names))
    return ShownProgram(HLO_WITH_CONFIG, _field(1, write_module(module)) + _field(2, config))


def _field(number: int, message: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(message)) + message
