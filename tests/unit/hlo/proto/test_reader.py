"""Modules: references, order, names, schedules, wrappers, headers; and what is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.tools.growth import growth
from xladev.errors import ProtoError, XladevError
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Metadata, ModuleAlias, Origin
from xladev.hlo.ir import (
    Annotations,
    HloComputation,
    HloInstruction,
    HloModule,
    ModuleHeader,
    ProgramShape,
    StackFrames,
)
from xladev.hlo.opset import OPSET
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.schedule import write_schedule
from xladev.hlo.proto.shapes import write_shape
from xladev.hlo.shape import Layout, Tile, array, tuple_of
from xladev.hlo.text import parse_module, print_module

F32 = array(dt.F32, (4,)).with_default_layout()
SHAPE = write_shape(F32)


def instruction(opcode: str, identity: int, *operands: int, **fields: Any) -> bytes:
    fields = {"name": f"{opcode}.{identity}", "shape": SHAPE, **fields}
    return encode(
        "HloInstructionProto",
        {"opcode": opcode, "id": identity, "operand_ids": operands, **fields},
    )


def computation(
    instructions: Sequence[bytes], root: int, identity: int = 0, name: str = "main"
) -> bytes:
    return encode(
        "HloComputationProto",
        {"name": name, "instructions": instructions, "id": identity, "root_id": root},
    )


def module(*computations: bytes, entry: int = 0, **fields: Any) -> bytes:
    fields = {"name": "m", "entry_computation_name": "main", **fields}
    return encode(
        "HloModuleProto",
        {"computations": computations, "entry_computation_id": entry, **fields},
    )


PARAMETER = instruction("parameter", 0)
NEGATE = instruction("negate", 1, 0)
PLAIN = computation([PARAMETER, NEGATE], 1)


def test_a_module() -> None:
    found = read_module(module(PLAIN))
    assert found.name == "m"
    assert [i.opcode for i in found.entry.instructions] == ["parameter", "negate"]
    assert found.entry.root.operands == (found.entry.instructions[0],)


def test_an_unreachable_computation_is_dropped_and_shared_ones_are_one_object() -> None:
    callee = computation([PARAMETER, NEGATE], 1, 7, "callee")
    call = {"called_computation_ids": (7,)}
    main = computation(
        [PARAMETER, instruction("call", 1, 0, **call), instruction("call", 2, 1, **call)], 2, 3
    )
    lonely = computation([PARAMETER], 0, 9, "lonely")
    found = read_module(module(callee, lonely, main, entry=3))
    assert [c.name for c in found.computations] == ["callee", "main"]
    first, second = found.entry.instructions[1:]
    assert first["to_apply"] is second["to_apply"]


@pytest.mark.parametrize("wrapped", [1, 2])
def test_wrapped_modules_are_found(wrapped: int) -> None:
    data = module(PLAIN)
    outer = encode("HloProto", {"hlo_module": data}) + b"\x1a\x04\x0a\x02\x08\x01"
    if wrapped == 2:
        outer = b"\x0a" + bytes([len(outer)]) + outer if len(outer) < 128 else _sized(outer)
    assert read_module(outer) == read_module(data)


def _sized(data: bytes) -> bytes:
    return encode("HloProto", {"hlo_module": data})


@pytest.mark.parametrize("name", ["", "m", "a\nb", "\n\x01a", "\n\x00\x12\x00"])
def test_names_do_not_look_like_wrappers(name: str) -> None:
    assert read_module(module(PLAIN, name=name)).name == name


CALL_5 = instruction("call", 1, 0, called_computation_ids=(5,))
BAD_MODULES = {
    "no entry": (module(PLAIN, entry=8), "no entry computation"),
    "no computations": (module(), "no entry computation"),
    "root": (module(computation([PARAMETER], 5)), "root 5 is none"),
    "forward operand": (
        module(computation([PARAMETER, instruction("negate", 1, 2), NEGATE], 1)),
        "instruction 2, but none before",
    ),
    "cycle": (module(computation([instruction("negate", 1, 1)], 1)), "instruction 1"),
    "control cycle": (
        module(computation([instruction("parameter", 0, control_predecessor_ids=(0,))], 0)),
        "control_predecessor_ids names instruction 0",
    ),
    "duplicate id": (
        module(computation([PARAMETER, instruction("negate", 0, 0, name="x")], 0)),
        "id of another",
    ),
    "duplicate name": (
        module(computation([PARAMETER, instruction("negate", 1, 0, name="parameter.0")], 0)),
        "used before",
    ),
    "no name": (module(computation([instruction("parameter", 0, name="")], 0)), "empty"),
    "duplicate computation id": (
        module(PLAIN, computation([PARAMETER], 0, 0, "b")),
        "has the id 0 of another",
    ),
    "duplicate computation name": (module(PLAIN, computation([PARAMETER], 0, 1)), "used before"),
    "unknown opcode": (
        module(computation([instruction("frobnicate", 3)], 3)),
        "unknown opcode 'frobnicate'",
    ),
    "no shape": (module(computation([instruction("parameter", 0, shape=None)], 0)), "no shape"),
    "no element type": (
        module(computation([instruction("parameter", 0, shape=b"")], 0)),
        "primitive type 0",
    ),
    "self call": (
        module(computation([PARAMETER, CALL_5], 1, 5), entry=5),
        "computation 5 is called, but none before",
    ),
    "called twice over": (
        module(
            computation([PARAMETER], 0, 5, "callee"),
            computation([PARAMETER, instruction("call", 1, 0, called_computation_ids=(5, 5))], 1),
        ),
        "call calls 2 computations, not 1",
    ),
    "calls none": (
        module(
            computation([PARAMETER], 0, 5, "callee"),
            computation([PARAMETER, instruction("negate", 1, 0, called_computation_ids=(5,))], 1),
        ),
        "negate calls 1 computations, not 0",
    ),
    "while without body": (
        module(computation([PARAMETER, instruction("while", 1, 0)], 1)),
        "while lacks its condition",
    ),
    "missing literal": (module(computation([instruction("constant", 0)], 0)), "lacks its literal"),
    "missing payload": (
        module(
            computation(
                [instruction("parameter", 0, backend_config_payload=encode("Payload", {"id": 3}))],
                0,
            )
        ),
        "no payload 3",
    ),
    "parameter numbers": (
        module(computation([instruction("parameter", 0, parameter_number=1)], 0)),
        "numbered",
    ),
}


@pytest.mark.parametrize("name", BAD_MODULES)
def test_bad_modules_are_refused(name: str) -> None:
    data, what = BAD_MODULES[name]
    with pytest.raises(XladevError, match=what) as caught:
        read_module(data)
    assert caught.value.where


def test_errors_name_instruction_and_computation() -> None:
    with pytest.raises(ProtoError) as caught:
        read_module(BAD_MODULES["unknown opcode"][0])
    where = str(caught.value.where)
    assert "instruction frobnicate.3" in where
    assert "computation main" in where
    assert "byte" in where


def test_unknown_values_of_enums_name_the_instruction() -> None:
    bad = instruction("fft", 1, 0) + b"\xf8\x01\x09"
    with pytest.raises(ProtoError, match="FftType has no value 9") as caught:
        read_module(module(computation([PARAMETER, bad], 1)))
    assert "instruction fft.1" in str(caught.value.where)


def sequence(*ids: int) -> bytes:
    return write_schedule([(0, ids)])


@pytest.mark.parametrize("operand", [0, 7 << 32])
def test_ids_of_xlas_builder_have_a_part_of_their_computation(operand: int) -> None:
    here = 7 << 32
    parts = [instruction("parameter", here), instruction("negate", here | 1, operand)]
    schedule = write_schedule([(7, (here, here | 1))])
    read = read_module(module(computation(parts, here | 1, 7), entry=7, schedule=schedule))
    assert read.entry.root.operands == (read.entry.parameters[0],)


def test_a_schedule_orders_instructions() -> None:
    second = instruction("negate", 2, 0)
    both = instruction("add", 3, 1, 2)
    data = module(computation([PARAMETER, NEGATE, second, both], 3), schedule=sequence(0, 2, 1, 3))
    found = read_module(data)
    assert found.header.is_scheduled
    names = [i.name for i in found.entry.instructions]
    assert names == ["parameter.0", "negate.2", "negate.1", "add.3"]
    assert read_module(write_module(found)) == found


@pytest.mark.parametrize(
    "ids, what",
    [((0,), "once"), ((0, 0), "once"), ((0, 1, 2), "once"), ((1, 0), "before something it needs")],
)
def test_bad_schedules(ids: tuple[int, ...], what: str) -> None:
    with pytest.raises(ProtoError, match=what):
        read_module(module(PLAIN, schedule=sequence(*ids)))


def test_backend_configs_may_lie_in_the_modules_table() -> None:
    by_id = instruction("negate", 1, 0, backend_config_payload=encode("Payload", {"id": 0}))
    value = encode("Payload", {"value": b"own"})
    by_value = instruction("negate", 2, 1, backend_config_payload=value)
    found = read_module(
        module(computation([PARAMETER, by_id, by_value], 2), payloads=[b"table\xff"])
    )
    configs = [i.note.backend_config for i in found.entry.instructions]
    assert configs == ["", "table\udcff", "own"]
    assert read_module(write_module(found)) == found


def test_header() -> None:
    tiled = array(dt.F32, (4,), layout=Layout((0,), tiles=(Tile((256,)),), memory_space=1))
    shapes = tuple_of(F32, F32)
    p0 = HloInstruction(OPSET["parameter"], F32, (), {"parameter_number": 0}, "p0")
    p1 = HloInstruction(OPSET["parameter"], shapes, (), {"parameter_number": 1}, "p1")
    part = HloInstruction(OPSET["get-tuple-element"], F32, (p1,), {"index": 0}, "g")
    root = HloInstruction(OPSET["tuple"], shapes, (p0, part), {}, "t")
    header = ModuleHeader(
        is_scheduled=True,
        aliases=(ModuleAlias((0,), 0, ()), ModuleAlias((1,), 1, (0,), "must-alias")),
        buffer_donors=((1, (1,)),),
        entry_layout=ProgramShape((tiled, shapes), shapes),
        frontend_attributes=(("a", "b"), ("c", '{"d":1}')),
        stack_frames=StackFrames(
            ("a.py", "b.py"), ("main",), ((1, 1, 10, 11, 2, 3),), ((1, 0), (1, 1))
        ),
    )
    whole = HloModule("foo", HloComputation("main", (p0, p1, part, root), root), header)
    assert read_module(write_module(whole)) == whole


def test_annotations() -> None:
    p0 = HloInstruction(OPSET["parameter"], F32, (), {"parameter_number": 0}, "p0")
    note = Annotations(
        metadata=Metadata(
            "add", "jit(f)/add", "f.py", 3, 4, 5, 6, 7, "sched", "dedup", (1, 2), 8, 9, True
        ),
        frontend_attributes=(("key", "välue"),),
        backend_config="{}\udcff",
        control_predecessors=(p0,),
        origin=Origin((((0,), "q", (1,)), ((1,), "", ()))),
        statistics=(("visualizing_index", 1.0), ("a", 1.5), ("b", -0.0)),
    )
    synthetic = Annotations(origin=Origin(synthetic="synthetic_call"))
    a = HloInstruction(OPSET["negate"], F32, (p0,), {}, "a", note)
    b = HloInstruction(OPSET["negate"], F32, (a,), {}, "b", synthetic)
    whole = HloModule("m", HloComputation("main", (p0, a, b), b))
    again = read_module(write_module(whole))
    assert again == whole
    assert again.entry.instructions[1].note.metadata == note.metadata


def chain(length: int) -> HloModule:
    """A module of ``length`` instructions, each on the one before and an earlier one."""
    made = [HloInstruction(OPSET["parameter"], F32, (), {"parameter_number": 0}, "p")]
    for i in range(length - 1):
        note = Annotations(metadata=Metadata(op_name=f"jit(f)/add.{i}", stack_frame_id=i % 50 + 1))
        operands = (made[-1], made[i // 2])
        made.append(HloInstruction(OPSET["add"], F32, operands, {}, f"add.{i}", note))
    return HloModule("chain", HloComputation("main", tuple(made), made[-1]))


def test_work_is_near_linear() -> None:
    """A chain of 50,000 instructions: no recursion, and no more work per instruction."""
    whole = chain(50_000)
    assert read_module(write_module(whole)) == whole
    assert growth(lambda made: read_module(write_module(made)), chain, 5_000, 50_000) < 1.5


def test_the_same_module_gives_the_same_bytes() -> None:
    whole = chain(50)
    assert write_module(whole) == write_module(read_module(write_module(whole)))


def test_names_that_utf8_cannot_hold_are_refused() -> None:
    p0 = HloInstruction(OPSET["parameter"], F32, (), {"parameter_number": 0}, "p\ud800")
    with pytest.raises(ProtoError, match="UTF-8|no value of"):
        write_module(HloModule("m", HloComputation("main", (p0,), p0)))


def test_a_shuffle_of_no_mode_stays_so() -> None:
    found = read_module(module(computation([PARAMETER, instruction("shuffle", 1, 0)], 1)))
    assert read_module(write_module(found)) == found


def test_a_constants_own_layout_orders_its_bytes_and_nothing_else() -> None:
    turned = write_shape(array(dt.S32, (2, 2), layout=Layout((0, 1))))
    literal = encode("LiteralProto", {"shape": turned, "s32s": bytes((1, 2, 3, 4))})
    shape = write_shape(array(dt.S32, (2, 2)).with_default_layout())
    made = instruction("constant", 1, shape=shape, literal=literal)
    read = read_module(module(computation([made], 1)))
    assert read.entry.root["literal"].array.tolist() == [[1, 3], [2, 4]]
    assert parse_module(print_module(read)) == read


def convolved(**fields: Any) -> dict[str, bytes]:
    names = {"input_feature_dimension": 1, "kernel_output_feature_dimension": 1}
    dims = {**names, "output_feature_dimension": 1, **fields}
    return {"convolution_dimension_numbers": encode("ConvolutionDimensionNumbers", dims)}


def statistics(name: str) -> bytes:
    return encode("StatisticsViz", {"statistics": [encode("Statistic", {"stat_name": name})]})


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (convolved(input_spatial_dimensions=(2,)), "differ in their"),
        (
            convolved(input_feature_dimension=0),
            r"dimensions \[0, 0\]",
        ),
        (convolved(output_batch_dimension=2**40), r"\[1099511627776"),
        (
            convolved(output_batch_dimension=-1),
            r"dimensions \[-1, 1\]",
        ),
        ({"statistics_viz": statistics("")}, "a statistic is called ''"),
        ({"statistics_viz": statistics("a=b")}, "a statistic is called 'a=b'"),
    ],
)
def test_what_no_text_could_say_is_refused(fields: dict[str, Any], what: str) -> None:
    bad = instruction("custom-call", 1, 0, custom_call_target="x", **fields)
    with pytest.raises(XladevError, match=what) as caught:
        read_module(module(computation([PARAMETER, bad], 1)))
    assert caught.value.where
