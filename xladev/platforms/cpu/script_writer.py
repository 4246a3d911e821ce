"""From a plan to a script: see `script.py`.

Kernels that only call procedures are read as the LLVM assembly that the emitters wrote, and become
part of it. What is no number, no address and no call, as everything in vectors, has no place in a
script: such kernels stay machine code, which it calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.kernel_plan import Copy, KernelPlan, RunKernel, Slice, Space, Step
from xladev.platforms.cpu.marks import BEGIN, COPY, END
from xladev.platforms.cpu.script import (
    ARGUMENTS,
    BINARY,
    CALL,
    FIRST_FREE,
    MOST_ARGUMENTS,
    RESULTS,
    SCRATCH,
    Kind,
    Operation,
    Script,
    packed_instructions,
)

MOST_INSTRUCTIONS = 8192
"""Longer programs are left to LLVM, whose code for them is worth its time."""

MOST_KERNELS = 6
"""Kernels that stay machine code. LLVM compiles an entry beside more of them in no time that
counts, and a call from it costs ten nanoseconds less."""

_LINE = 8
"""Registers in 64 bytes: what is on the stack is aligned so."""

_WORD = re.compile(r"[%@]?[-\w.]+")
_TABLE = re.compile(r"@\S+ = internal constant \[\d+ x i64\] \[(.*)\], align \d+")
_LIMIT = 1 << 31


class _NoScript(Exception):
    """A program that is none for a script."""


@dataclass(frozen=True, slots=True)
class _Place:
    """An address: what a register holds, and bytes behind it."""

    base: int
    offset: int


_Value = int | _Place
"""A number that is known, or a register with an offset."""


def script_of(
    plan: KernelPlan, module: ModuleBuilder, light: Container[str]
) -> tuple[Script, tuple[str, ...]] | None:
    """The script of a plan, and the kernels that it calls; None if it has to be machine code.

    Args:
        plan: what to run.
        module: with all of its kernels, for the procedures in `ModuleBuilder.procedures`' order.
        light: kernels that only call procedures.
    """
    writer = _Writer(module, light)
    try:
        writer.program(plan)
    except _NoScript:
        return None
    return writer.script(), tuple(writer.kernels)


@dataclass(slots=True)
class _Writer:
    """The instructions so far, and what registers hold that are known beforehand."""

    module: ModuleBuilder
    light: Container[str]
    kernels: dict[str, int] = field(default_factory=dict[str, int])
    code: list[int] = field(default_factory=list[int])
    registers: int = FIRST_FREE
    table: bytearray = field(default_factory=bytearray)
    known: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    _procedures: dict[str, int] = field(init=False)
    _tables: dict[str, int] = field(default_factory=dict[str, int])
    _pointers: dict[tuple[Space, int], int] = field(default_factory=dict[tuple[Space, int], int])

    def __post_init__(self) -> None:
        self._procedures = {name: n for n, name in enumerate(self.module.procedures())}

    def script(self) -> Script:
        """What was written."""
        return Script(
            packed_instructions(self.code), tuple(self.known), self.registers, bytes(self.table)
        )

    def program(self, plan: KernelPlan) -> None:
        """Writes all steps of a plan."""
        self.mark(BEGIN)
        for step in plan.steps:
            self._step(plan, step)
            if len(self.code) > 4 * MOST_INSTRUCTIONS:
                raise _NoScript
        self.mark(END)
        self.do(Operation.RETURN)

    def _step(self, plan: KernelPlan, step: Step) -> None:
        match step:
            case RunKernel():
                addresses = [self._address(s) for s in step.buffers]
                self._kernel(plan.kernels[step.kernel].name, addresses)
                self.mark(step.operation)
            case Copy():
                places = self._address(step.destination), self._address(step.source)
                to, source = map(self.register, places)
                self.do(Operation.COPY, to, source, self.number(step.source.nbytes))
                self.mark(COPY)
            case _:
                raise _NoScript

    def _kernel(self, name: str, addresses: Sequence[_Place]) -> None:
        if name in self.light and name not in self.kernels:
            code = self.code
            try:
                _Kernel(self, name, addresses).write()
            except _NoScript:
                self.code = code
            else:
                return
        number = self.kernels.setdefault(name, len(self.kernels))
        if number >= MOST_KERNELS:
            raise _NoScript
        self.call(self._known(Kind.KERNEL, number), [self.register(a) for a in addresses])

    # Instructions and registers

    def call(self, function: int, arguments: Sequence[int]) -> None:
        """Calls the function at an address."""
        if len(arguments) > MOST_ARGUMENTS:
            raise _NoScript
        self.do(CALL + len(arguments), function)
        self.code += [*arguments, *[0] * (-len(arguments) % 4)]

    def do(self, operation: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Appends an instruction."""
        self.code += (operation, a, b, c)

    def mark(self, mark: int) -> None:
        """Says what was done."""
        self.do(Operation.MARK, self.number(mark))

    def fresh(self) -> int:
        """A register that nothing has."""
        self.registers += 1
        return self.registers - 1

    def fresh_line(self, count: int) -> int:
        """The first of some registers in a row, at a multiple of 64 bytes."""
        first = -(-self.registers // _LINE) * _LINE
        self.registers = first + count
        return first

    def number(self, value: int) -> int:
        """The register of a number."""
        return self._known(Kind.NUMBER, value)

    def register(self, value: _Value) -> int:
        """A register that holds a value, after instructions if need be."""
        if isinstance(value, int):
            return self.number(value)
        if not value.offset:
            return value.base
        made = self.fresh()
        self.do(BINARY["add"], value.base, self.number(value.offset), made)
        return made

    def procedure(self, symbol: str) -> int:
        """The register of a procedure's address."""
        if symbol not in self._procedures:
            raise _NoScript
        return self._known(Kind.PROCEDURE, self._procedures[symbol])

    def table_of(self, symbol: str) -> int:
        """The register of a table's address."""
        if symbol not in self._tables:
            found = _TABLE.fullmatch(self.module.constant_text(symbol))
            if found is None:
                raise _NoScript
            self._tables[symbol] = len(self.table)
            for item in found[1].split(", "):
                self.table += int(item.removeprefix("i64 ")).to_bytes(8, "little", signed=True)
            self.table += bytes(-len(self.table) % 64)
        return self._known(Kind.TABLE, self._tables[symbol])

    def _known(self, kind: Kind, number: int) -> int:
        key = int(kind), number
        if key not in self.known:
            self.known[key] = -len(self.known) - 1
        return self.known[key]

    def _address(self, s: Slice) -> _Place:
        if s.space is Space.SCRATCH:
            return _Place(SCRATCH, s.offset)
        if s.space is Space.CONSTANT:
            return _Place(self._known(Kind.CONSTANT, s.index), s.offset)
        key = s.space, s.index
        if key not in self._pointers:
            self._pointers[key] = self.fresh()
            of = ARGUMENTS if s.space is Space.ARGUMENT else RESULTS
            self.do(Operation.LOAD, of, 8 * s.index, self._pointers[key])
        return _Place(self._pointers[key], s.offset)


class _Kernel:
    """One run of a kernel, written in its place.

    Addresses at a fixed distance from the kernel's own are worked out before it begins, so that
    loops need not.
    """

    def __init__(self, writer: _Writer, name: str, arguments: Sequence[_Place]) -> None:
        self._writer = writer
        function = writer.module.builder(name)
        self._lines = function.body().split("\n")
        self._values: dict[str, _Value] = {}
        for parameter, place in zip(function.arguments, arguments, strict=True):
            self._values[parameter.text] = place
        self._outside = {place.base for place in arguments} | {SCRATCH}
        self._before: dict[_Place, int] = {}
        self._labels: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []
        self._phis = _phis_of(self._lines)
        self._registers_of_phis: dict[str, int] = {}
        self._block = ""

    def write(self) -> None:
        """Appends the kernel's instructions."""
        writer = self._writer
        outer, writer.code = writer.code, []
        for line in self._lines:
            self._line(line)
        self._begin("")
        inner, writer.code = writer.code, outer
        for place, register in self._before.items():
            offset = writer.number(place.offset)
            writer.do(BINARY["add"], place.base, offset, register)
        base = len(writer.code) // 4
        for at, label in self._jumps:
            inner[at] = self._labels[label] + base
        writer.code += inner

    def _line(self, line: str) -> None:
        if line.endswith(":"):
            self._block = line[:-1]
            self._begin(self._block)
            return
        words = _WORD.findall(line)
        result = words.pop(0) if words[0][0] == "%" else ""
        rule = _RULES.get(words[0])
        if rule is None or ("<" in line and words[0] != "store"):
            raise _NoScript
        rule(self, result, words)

    def _begin(self, label: str) -> None:
        """What follows has a label; a jump to it right before it is none."""
        code = self._writer.code
        if self._jumps and self._jumps[-1] == (len(code) - 3, label):
            self._jumps.pop()
            del code[-4:]
        self._labels[label] = len(code) // 4

    # Values

    def _value(self, text: str) -> _Value:
        if text[0] == "%":
            if text not in self._values:
                raise _NoScript
            return self._values[text]
        if text[0] == "@":
            return _Place(self._writer.table_of(text[1:]), 0)
        if text in _WORDS:
            return _WORDS[text]
        try:
            return int(text)
        except ValueError:
            raise _NoScript from None

    def _register(self, text: str) -> int:
        value = self._value(text)
        if isinstance(value, int) or not value.offset:
            return self._writer.register(value)
        if value.base not in self._outside and value.base >= 0:
            return self._writer.register(value)
        if value not in self._before:
            self._before[value] = self._writer.fresh()
        return self._before[value]

    def _result(self, name: str) -> int:
        """A new register for a name."""
        made = self._writer.fresh()
        self._values[name] = _Place(made, 0)
        return made

    # Instructions

    def _binary(self, result: str, words: Sequence[str]) -> None:
        operation = words[0]
        if operation == "icmp":
            operation = f"icmp {words[1]}"
        if words[-3] not in ("i64", "i1", "ptr"):
            raise _NoScript
        self._compute(operation, result, words[-2], words[-1])

    def _compute(self, operation: str, result: str, left: str, right: str) -> None:
        if operation not in BINARY:
            raise _NoScript
        a, b = self._value(left), self._value(right)
        if isinstance(a, int) and isinstance(b, int) and operation in _FOLDED:
            self._values[result] = _FOLDED[operation](a, b)
            return
        operands = self._register(left), self._register(right)
        self._writer.do(BINARY[operation], *operands, self._result(result))

    def _element_address(self, result: str, words: Sequence[str]) -> None:
        # getelementptr inbounds i8 ptr BASE i64 INDEX
        element, base, index = words[-5], words[-3], words[-1]
        size = {"i8": 1, "i64": 8, "ptr": 8}.get(element)
        place, by = self._value(base), self._value(index)
        if size is None or isinstance(place, int):
            raise _NoScript
        if isinstance(by, int):
            self._values[result] = _Place(place.base, place.offset + by * size)
        elif size == 1:
            self._compute("add", result, base, index)
        else:
            raise _NoScript

    def _load(self, result: str, words: Sequence[str]) -> None:
        # load i64 ptr ADDRESS align N
        if words[1] not in ("i64", "ptr"):
            raise _NoScript
        place = self._value(words[3])
        if isinstance(place, int) or not 0 <= place.offset < _LIMIT:
            raise _NoScript
        self._writer.do(Operation.LOAD, place.base, place.offset, self._result(result))

    def _store(self, result: str, words: Sequence[str]) -> None:
        # store <8 x i64> splat (i64 0) ptr ADDRESS align N
        if words[1:7] != ["8", "x", "i64", "splat", "i64", "0"]:
            raise _NoScript
        self._writer.do(Operation.CLEAR, self._register(words[8]))

    def _alloca(self, result: str, words: Sequence[str]) -> None:
        # alloca [COUNT x TYPE] align N
        if words[3] not in ("i64", "ptr") or int(words[5]) > 64:
            raise _NoScript
        first, made = self._writer.fresh_line(int(words[1])), self._writer.fresh()
        self._writer.do(Operation.ADDRESS, first, 0, made)
        self._values[result] = _Place(made, 0)

    def _call(self, result: str, words: Sequence[str]) -> None:
        # call TYPE @SYMBOL(TYPE VALUE ...)
        symbol, types, values = words[2][1:], words[3::2], words[4::2]
        if symbol.startswith("llvm."):
            self._intrinsic(symbol, result, values)
            return
        if words[1] != "void" or set(types) - {"i64", "ptr"}:
            raise _NoScript
        procedure = self._writer.procedure(symbol)
        self._writer.call(procedure, [self._register(value) for value in values])

    def _intrinsic(self, symbol: str, result: str, values: Sequence[str]) -> None:
        name = symbol.split(".")[1]
        if name == "memcpy" and len(values) == 4:
            self._writer.do(Operation.COPY, *map(self._register, values[:3]))
        elif symbol.endswith(".i64"):
            self._compute(name, result, *values)
        else:
            raise _NoScript

    def _branch(self, result: str, words: Sequence[str]) -> None:
        # br label %THEN, or br i1 CONDITION label %THEN label %OTHERWISE
        if words[1] == "label":
            self._enter(words[2][1:])
            return
        then, otherwise = words[4][1:], words[6][1:]
        condition = self._register(words[2])
        at = len(self._writer.code)
        self._writer.do(Operation.BRANCH, condition)
        for place, target in ((at + 2, then), (at + 3, otherwise)):
            edge = f"{self._block}>{target}"
            if self._phis.get(target):
                self._labels[edge] = len(self._writer.code) // 4
                self._enter(target)
                self._jumps.append((place, edge))
            else:
                self._jumps.append((place, target))

    def _enter(self, target: str) -> None:
        """Goes to a block, and gives it what it takes from this one."""
        phis = self._phis.get(target, ())
        given = [self._register(values[self._block]) for _, values in phis]
        taken = [self._registers_of_phis.get(name) or self._phi(name) for name, _ in phis]
        if set(given) & set(taken):
            raise _NoScript
        for value, result in zip(given, taken, strict=True):
            self._writer.do(Operation.MOVE, value, 0, result)
        self._jumps.append((len(self._writer.code) + 1, target))
        self._writer.do(Operation.JUMP)

    def _phi(self, name: str) -> int:
        self._registers_of_phis[name] = self._result(name)
        return self._registers_of_phis[name]

    def _same(self, result: str, words: Sequence[str]) -> None:
        # zext i1 VALUE to i64, or ptrtoint ptr VALUE to i64
        if words[1] not in ("i1", "ptr") or words[-1] != "i64":
            raise _NoScript
        self._values[result] = self._value(words[2])

    def _fence(self, result: str, words: Sequence[str]) -> None:
        self._writer.do(Operation.FENCE)

    def _return(self, result: str, words: Sequence[str]) -> None:
        self._jumps.append((len(self._writer.code) + 1, ""))
        self._writer.do(Operation.JUMP)

    def _nothing(self, result: str, words: Sequence[str]) -> None:
        """A phi: those who enter its block give it its value."""


def _phis_of(lines: Sequence[str]) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """The phis of each block: what each of its predecessors gives it."""
    found: dict[str, list[tuple[str, dict[str, str]]]] = {}
    block = ""
    for line in lines:
        if line.endswith(":"):
            block = line[:-1]
        elif " = phi " in line:
            result, _, kind, *rest = _WORD.findall(line)
            if kind not in ("i64", "ptr"):
                raise _NoScript
            edges = {label[1:]: value for value, label in zip(rest[::2], rest[1::2], strict=True)}
            found.setdefault(block, []).append((result, edges))
    return found


_WORDS: Mapping[str, int] = MappingProxyType({"null": 0, "true": 1, "false": 0})

_FOLDED: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "add": int.__add__,
        "sub": int.__sub__,
        "mul": int.__mul__,
        "smin": min,
        "smax": max,
        "icmp slt": lambda a, b: int(a < b),
        "icmp sgt": lambda a, b: int(a > b),
    }
)
"""What is worked out here where both operands are known; sizes and offsets never overflow."""

_Rule = Callable[[_Kernel, str, Sequence[str]], None]
_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        **dict.fromkeys(
            ("add", "sub", "mul", "udiv", "urem", "sdiv", "srem", "and", "or", "xor", "icmp"),
            _Kernel._binary,
        ),
        "getelementptr": _Kernel._element_address,
        "load": _Kernel._load,
        "store": _Kernel._store,
        "alloca": _Kernel._alloca,
        "call": _Kernel._call,
        "zext": _Kernel._same,
        "ptrtoint": _Kernel._same,
        "fence": _Kernel._fence,
        "br": _Kernel._branch,
        "ret": _Kernel._return,
        "phi": _Kernel._nothing,
    }
)
