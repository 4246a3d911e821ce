"""Whatever is looked up by the name of an opcode, anywhere in xladev, names one that exists."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import xladev
from tests.tools.opcode_tables import (
    Table,
    compared_names,
    modules_that_name,
    opcode_tables,
)
from tests.tools.syntax import parse
from xladev.hlo.opset import OPSET

PACKAGE = Path(xladev.__file__).parent
NAMES = frozenset(OPSET)

_ATAN = {"atan"}
FUNCTIONS: Mapping[str, set[str]] = MappingProxyType(
    {
        "codegen.math.complex.functions.COMPLEX_MATH": _ATAN,
        "codegen.math.functions.MATH": _ATAN,
        "codegen.scalar.complex.COMPLEX_EMITTERS": _ATAN,
        "codegen.scalar.elementwise.FLOAT_EMITTERS": _ATAN,
    }
)
"""Tables of mathematical functions, and those of them that are no opcodes."""

OF_OTHER_THINGS = {
    "frontends.torch.lower.elementwise._UNARY",
    "passes.sharding.propagate.PASS_THROUGH",
    "passes.spmd.reshard._EMIT",
    "passes.spmd.reshard._MOVING",
    "platforms.template_npu.device.functions._FLOAT_UNARY",
    "platforms.template_npu.device.functions._INTEGER_UNARY",
    "platforms.template_npu.device.isa.SLOW_FUNCTIONS",
    "platforms.template_npu.device.isa.UNARY",
}
"""Tables of other things, some of which are called as opcodes are: instructions of a device,
overloads of torch, edges between shardings, steps of a reshard."""

OF_LLVM = {"platforms/cpu/bytecode_kernel.py"}
"""Files whose opcodes are those of LLVM instructions."""


@pytest.fixture(scope="module")
def tables() -> Mapping[str, set[str]]:
    """Names that the opset does not have, by table."""
    found = opcode_tables(modules_that_name(PACKAGE, NAMES), NAMES)
    return {t.name.removeprefix("xladev."): {*t.unknown} for t in found}


def test_every_table_of_opcodes_names_opcodes(tables: Mapping[str, set[str]]) -> None:
    unknown = {
        name: names for name, names in tables.items() if names and name not in OF_OTHER_THINGS
    }
    assert unknown == FUNCTIONS


def test_tables_of_other_things_are_no_longer_ones_of_opcodes_alone(
    tables: Mapping[str, set[str]],
) -> None:
    assert all(tables[name] for name in OF_OTHER_THINGS)


def test_the_tables_that_decide_are_among_those_found(tables: Mapping[str, set[str]]) -> None:
    assert tables.keys() >= {
        "compiler.fusion.instruction_fusion._INDEX_ONLY",
        "passes.expanders.EXPANDERS",
        "platforms.cpu.codegen.table.KERNEL_EMITTERS",
        "platforms.template_npu.support._MOVEMENT",
    }


def tables_of(folder: Path, text: str) -> list[Table]:
    """The tables in a package with one module, ``planted.table``, of that text."""
    package = folder / "planted"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "table.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        for name in ("planted", "planted.table"):
            patch.delitem(sys.modules, name, raising=False)
        return list(opcode_tables(modules_that_name(package, NAMES), NAMES))


PLANTED = {
    "keys of a mapping": 'T = {"add": 1, "exponential": 2, "log": 3, "expm1": 4}',
    "keys that a call makes": 'T = dict.fromkeys(("add", "exponential", "log", "expm1"), 10)',
    "members of a set": 'T: frozenset[str] = frozenset({"add", "exponential", "log", "expm1"})',
    "members of a tuple": 'T = ("add", "exponential", "log", "expm1")',
    "members of a list": 'T = ["add", "exponential", "log", "expm1"]',
    "one of two at once": 'T, _ = ("add", "exponential", "log", "expm1"), 1',
    "keys that cannot change": "from types import MappingProxyType\n"
    'T = MappingProxyType({"add": 1, "exponential": 2, "log": 3, "expm1": 4})',
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_name_is_seen(text: str, tmp_path: Path) -> None:
    assert tables_of(tmp_path, text) == [Table("planted.table.T", ("expm1",))]


OTHERS = {
    "two opcodes": 'T = ("add", "log", 1, 2, 3)\nU = "tanh"',
    "mostly other names": 'T = ("add", "log", "tanh", "mul", "sub", "div")',
    "imported": "from xladev.passes.pattern import COMMUTATIVE\nT = 'add log tanh'.split\n"
    'U = "add" "log"\nV = "multiply", "tanh"',
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_constants_are_no_tables_of_opcodes(text: str, tmp_path: Path) -> None:
    assert tables_of(tmp_path, text) == []


def test_every_name_that_an_opcode_is_compared_with_is_one() -> None:
    unknown = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        compared = compared_names(parse(text)) if ".opcode" in text else ()
        where = path.relative_to(PACKAGE).as_posix()
        unknown += [(where, line, name) for line, name in compared if name not in NAMES]
    assert {where for where, _, _ in unknown} == OF_LLVM, unknown


@pytest.mark.parametrize(
    "condition",
    [
        'i.opcode == "expm1"',
        'i.opcode != "expm1"',
        'i.opcode in ("add", "expm1")',
        'self.root.opcode not in {"expm1"}',
    ],
)
def test_a_planted_comparison_is_seen(condition: str) -> None:
    names = [name for _, name in compared_names(parse(condition))]
    assert [name for name in names if name not in NAMES] == ["expm1"]
