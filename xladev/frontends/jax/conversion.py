"""From what PJRT clients hand over to an HloModule.

JAX hands over a portable StableHLO artifact (format ``mlir``), torch_xla and others a serialized
HloModuleProto (``hlo``). The user's jaxlib converts the first to the second; it computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.errors import UnsupportedError
from xladev.frontends.jax import adapter
from xladev.frontends.jax.adapter_constants import with_constants
from xladev.frontends.jax.auto_layouts import chosen
from xladev.frontends.jax.compile_options import ALONE, JaxOptions
from xladev.frontends.jax.entry_interface import (
    EntryInterface,
    read_place,
    with_entry_layout,
    with_places,
)
from xladev.frontends.jax.shardings import Shardings, shardings_of
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.proto.shapes import write_program_shape
from xladev.hlo.proto.wire import varint
from xladev.hlo.verifier import verify
from xladev.passes.collectives.joined import BUCKET_NBYTES, joined_collectives
from xladev.passes.spmd.program import partition

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
        interface: where arguments and results are.
        shown: what clients are shown of it.
        shardings: how they are laid out over the devices; None for a program of one partition.
    """

    module: HloModule
    interface: EntryInterface
    shown: ShownProgram
    shardings: Shardings | None = None


def read_program(
    code: bytes, form: str, options: JaxOptions = ALONE, bucket_nbytes: int = BUCKET_NBYTES
) -> ReadProgram:
    """The program in a PJRT_Program.

    Args:
        code: its bytes.
        form: ``mlir`` or ``hlo``.
        options: how many partitions it has, and whose shardings may be chosen.
        bucket_nbytes: see `joined_collectives`.

    Raises:
        UnsupportedError: another format, or StableHLO without jaxlib.
        XladevError: the bytes are damaged.
    """
    if form == HLO:
        return _local_program(read_module(code), EntryInterface(), options, bucket_nbytes)
    if form != MLIR:
        raise UnsupportedError(f"PJRT programs of format {form!r} are not read", why="mlir or hlo")
    adapter.require_jaxlib()
    bytecode, constants, *attributes = adapter.read_stablehlo(code)
    interface = EntryInterface(*(tuple(map(read_place, given)) for given in attributes))
    module = with_constants(read_module(adapter.hlo_proto(bytecode)), constants)
    if options.num_partitions == 1:
        interface = chosen(module, interface)
    if options.num_partitions == 1 and not interface.has_orders:
        return ReadProgram(module, interface, ShownProgram(MLIR, code))
    return _local_program(module, interface, options, bucket_nbytes)


def _local_program(
    module: HloModule, interface: EntryInterface, options: JaxOptions, bucket_nbytes: int
) -> ReadProgram:
    """The program that takes and gives what each device holds."""
    header = replace(
        module.header,
        propagate_to_parameters=options.propagate_to_parameters,
        propagate_to_output=options.propagate_to_output,
    )
    given = replace(module, header=header)
    local, shardings = given, None
    if options.num_partitions > 1:
        verify(given)
        partitioned = partition(given, options.num_partitions)
        local = partitioned.module
        for each in joined_collectives(bucket_nbytes):
            local = each.run(local)
        shardings = shardings_of(partitioned)
    interface = chosen(local, interface)
    shown = with_entry_layout(local, interface) if interface.has_orders else local
    module = with_places(local, interface)
    return ReadProgram(module, interface, _with_config(shown, shardings), shardings)


def _with_config(module: HloModule, shardings: Shardings | None) -> ShownProgram:
    """HLO with its interface.

    Source: HloModuleProtoWithConfig (module 1, config 2), HloModuleProto (spmd_output_sharding 12,
    spmd_parameters_shardings 14) and HloModuleConfigProto (entry_computation_layout 1) of XLA's
    `xla/service/hlo.proto` and `xla/xla.proto`.
    """
    names = [p.name for p in module.entry.parameters]
    config = _field(1, write_program_shape(module.entry_layout, names))
    data = write_module(module)
    if shardings is not None:
        data += _field(12, shardings.output(module.entry.root.shape.is_tuple))
        data += b"".join(_field(14, sharding) for sharding in shardings.parameters)
    return ShownProgram(HLO_WITH_CONFIG, _field(1, data) + _field(2, config))


def _field(number: int, message: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(message)) + message
