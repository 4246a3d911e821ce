"""Mutants written by hand of the template NPU: tiles, scratchpad, order, transfers, devices."""

from __future__ import annotations

from typing import Any

from tests.differential.planted import entry, function
from tests.mutants.wrong import Plant, WrongBackend, everywhere, method
from xladev.compiler.support import YES
from xladev.platforms.template_npu import emitter
from xladev.platforms.template_npu.codegen import dot, indexing, movement, nodes, products, tiles
from xladev.platforms.template_npu.codegen.command_list import CommandList
from xladev.platforms.template_npu.codegen.expression import S32
from xladev.platforms.template_npu.compiler import TemplateNpuCompiler
from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.driver import library
from xladev.platforms.template_npu.stream import NpuEvent, NpuStream


def _without_last(extents: Any, sizes: Any) -> Any:
    found = list(_boxes(extents, sizes))
    return iter(found[:-1] if len(found) > 1 else found)


def _never_waits(right: Any, self: CommandList, engine: int, needed: Any) -> Any:
    return [isa.NO_SEMAPHORE] * isa.WAIT_COUNT, [0] * isa.WAIT_COUNT


def _stale(right: Any, self: Any, node: Any, values: Any, box: Any, inputs: Any) -> Any:
    """What was loaded for the first tile serves all others."""
    if not isinstance(node, nodes.Load) or not any(node.depends):
        return right(self, node, values, box, inputs)
    if node not in self._kept:
        self._kept[node] = right(self, node, values, box, inputs)
        self.taken.pop(node, None)
    return self._kept[node]


def _stores_more(
    right: Any, self: Any, opcode: Any, function: Any, types: Any, counts: Any, *rest: Any
) -> None:
    """Stores of more than one lane go on for one more."""
    if opcode.engine == isa.STORE and counts[-1] > 1:
        counts = (*counts[:-1], counts[-1] + 1)
    right(self, opcode, function, types, counts, *rest)


def _forgets_sums(
    right: Any, self: Any, opcode: Any, function: Any, types: Any, counts: Any, operands: Any,
    scalars: Any, *rest: Any,
) -> None:  # fmt: skip
    """A product of more than one block of depth keeps the last block only."""
    if opcode.name == "matmul":
        scalars = (*scalars[:3], 0)
    right(self, opcode, function, types, counts, operands, scalars, *rest)


def _whole_tiles(size: int) -> Any:
    """What is left beside whole tiles is dropped."""
    found = _segments(size)
    return found[:1]


def _narrow_product(core: Any) -> int:
    """Floats are multiplied in bf16."""
    found = _product_type(core)
    return dot._BF16 if isa.TYPES[found].name == "f32" else found


def _reversed_results(stage: Any, core: Any, results: Any, root: Any) -> None:
    """A reduce of several arrays of one type stores its results in reverse."""
    types = {leaf.element_type for _, leaf in core.shape.leaves()}
    _emit_reduce(stage, core, list(reversed(results)) if len(types) == 1 else results, root)


def _not_clamped(e: Any, index: Any, most: int) -> Any:
    return e.converted(index, S32)


def _padded_late(stage: Any, operand: Any, value: Any, padding: Any, result: Any) -> None:
    """Everything is one further where there is room on both sides."""
    moved = [
        (low + 1, high - 1, inner) if low > 0 and high > 0 else (low, high, inner)
        for low, high, inner in padding
    ]
    _emit_padded(stage, operand, value, moved, result)


def _always_ready(event: NpuEvent) -> bool:
    return True


def _does_not_wait(event: NpuEvent, timeout_s: float | None = None) -> bool:
    return True


def _event_without_waiting(patch: Any) -> None:
    patch.setattr(NpuEvent, "is_ready", _always_ready)
    patch.setattr(NpuEvent, "wait", _does_not_wait)


def _no_wait(stream: NpuStream, event: Any) -> None:
    return None


def _drops_last_byte(device: int, address: int, destination: Any) -> None:
    memory = library._memory(device, address, destination.nbytes)
    destination[: destination.nbytes - 1] = memory[: destination.nbytes - 1]


def _frees_nothing(device: int, address: int) -> None:
    return None


def _one_memory(patch: Any) -> None:
    """All devices have the DRAM of the first, and allocators of their own."""
    right, first = library.npu_open, []

    def wrong(ordinal: int) -> int:
        handle = right(ordinal)
        dram = library._devices[handle].core.dram
        first.append(dram)
        dram.data = first[0].data
        return handle

    patch.setattr(library, "npu_open", wrong)


def _keeps_first_program(patch: Any) -> None:
    """Command lists of equal length are taken for the same one."""
    right = library.npu_load
    known: dict[int, bytes] = {}

    def wrong(device: int, code: bytes) -> int:
        return right(device, known.setdefault(len(code), code))

    patch.setattr(library, "npu_load", wrong)


def _supports_everything(self: Any, instruction: Any, description: Any) -> Any:
    return YES


_boxes, _segments = tiles.boxes, products._segments
_emit_reduce = emitter.EPILOGUES["reduce"]
_product_type, _emit_padded = dot.product_type, movement.emit_padded


def _npu(name: str, plant: Plant, *opcodes: str, cases: tuple[str, ...] = ()) -> WrongBackend:
    return WrongBackend(name, "template_npu", plant, opcodes, cases)


MUTANTS = (
    _npu("the last tile is dropped", everywhere(_boxes, _without_last), "dot", "reduce", "add"),
    _npu("engines do not wait for each other", method(CommandList, "_waits", _never_waits), "add"),
    _npu("the scratchpad is stale: one load serves all tiles",
         method(tiles.TileEmitter, "_value", _stale), "dot", "reduce", "convolution"),
    _npu("stores go one element past the end", method(CommandList, "emit", _stores_more), "add"),
    _npu("sums over the depth start anew", method(CommandList, "emit", _forgets_sums), "dot"),
    _npu("a product drops what is no whole tile",
         function(products, "_segments", _whole_tiles), "dot"),
    _npu("f32 is multiplied in bf16", everywhere(_product_type, _narrow_product),
         "dot", "convolution"),
    _npu("results of one reduce come in reverse",
         entry(emitter, "EPILOGUES", "reduce", _reversed_results),
         cases=("reduce_variants::*",)),
    _npu("indices out of bounds fault", function(indexing, "clamped_index", _not_clamped),
         "dynamic-slice", "gather", "dynamic-update-slice"),
    _npu("padding is one further", everywhere(_emit_padded, _padded_late),
         "pad", "reduce-window", "convolution"),
    _npu("an event is ready before its work is", _event_without_waiting,
         cases=("streams::*", "executables::*", "memory::*")),
    _npu("a stream does not wait for the event of another", function(NpuStream, "wait", _no_wait),
         cases=("streams::one-stream-waits*",)),
    _npu("the last byte stays on the device", function(library, "npu_read", _drops_last_byte),
         cases=("memory::*",)),
    _npu("memory is never given back", function(library, "npu_free", _frees_nothing),
         cases=("memory::*",)),
    _npu("two devices share one memory", _one_memory,
         cases=("memory::copies-between-devices", "memory::devices-have*")),
    _npu("a loaded program is taken for another", _keeps_first_program, "add", "subtract"),
    _npu("everything is claimed to be supported",
         function(TemplateNpuCompiler, "supports", _supports_everything), "sort", "fft"),
)  # fmt: skip
