"""Kernels that only call procedures, as part of a script: read as the LLVM assembly they are.

What is no number, no address and no call, as everything in vectors, has no place in a script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.platforms.cpu.script import BINARY, SCRATCH, Operation
from xladev.platforms.cpu.script_code import Held, NoScriptError, Place, ScriptCode

_WORD = re.compile(r"[%@]?[-\w.]+")
_LIMIT = 1 << 31


def write_kernel(script: ScriptCode, name: str, arguments: Sequence[Place]) -> None:
    """Appends one run of a kernel.

    Args:
        script: what is written.
        name: of a kernel in its module.
        arguments: addresses of the kernel's arrays.

    Raises:
        NoScriptError: it has to stay machine code; no instruction was appended.
    """
    code = script.code
    try:
        _Kernel(script, name, arguments).write()
    except NoScriptError:
        script.code = code
        raise


class _Kernel:
    """One run of a kernel, written in its place.

    Addresses at a fixed distance from the kernel's own are worked out before it begins, so that
    loops need not.
    """

    def __init__(self, script: ScriptCode, name: str, arguments: Sequence[Place]) -> None:
        self._script = script
        function = script.module.builder(name)
        self._lines = function.body().split("\n")
        self._values: dict[str, Held] = {}
        for parameter, place in zip(function.arguments, arguments, strict=True):
            self._values[parameter.text] = place
        self._outside = {place.base for place in arguments} | {SCRATCH}
        self._before: dict[Place, int] = {}
        self._labels: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []
        self._phis = _phis_of(self._lines)
        self._registers_of_phis: dict[str, int] = {}
        self._block = ""

    def write(self) -> None:
        """Appends the kernel's instructions."""
        script = self._script
        outer, script.code = script.code, []
        for line in self._lines:
            self._line(line)
        self._begin("")
        inner, script.code = script.code, outer
        for place, register in self._before.items():
            offset = script.number(place.offset)
            script.do(BINARY["add"], place.base, offset, register)
        base = len(script.code) // 4
        for at, label in self._jumps:
            inner[at] = self._labels[label] + base
        script.code += inner

    def _line(self, line: str) -> None:
        if line.endswith(":"):
            self._block = line[:-1]
            self._begin(self._block)
            return
        words = _WORD.findall(line)
        result = words.pop(0) if words[0][0] == "%" else ""
        rule = _RULES.get(words[0])
        if rule is None or ("<" in line and words[0] != "store"):
            raise NoScriptError
        rule(self, result, words)

    def _begin(self, label: str) -> None:
        """What follows has a label; a jump to it right before it is none."""
        code = self._script.code
        if self._jumps and self._jumps[-1] == (len(code) - 3, label):
            self._jumps.pop()
            del code[-4:]
        self._labels[label] = len(code) // 4

    # Values

    def _value(self, text: str) -> Held:
        if text[0] == "%":
            if text not in self._values:
                raise NoScriptError
            return self._values[text]
        if text[0] == "@":
            return Place(self._script.table_of(text[1:]), 0)
        if text in _WORDS:
            return _WORDS[text]
        try:
            return int(text)
        except ValueError:
            raise NoScriptError from None

    def _register(self, text: str) -> int:
        value = self._value(text)
        if isinstance(value, int) or not value.offset:
            return self._script.register(value)
        if value.base not in self._outside and value.base >= 0:
            return self._script.register(value)
        if value not in self._before:
            self._before[value] = self._script.fresh()
        return self._before[value]

    def _result(self, name: str) -> int:
        """A new register for a name."""
        made = self._script.fresh()
        self._values[name] = Place(made, 0)
        return made

    # Instructions

    def _binary(self, result: str, words: Sequence[str]) -> None:
        operation = words[0]
        if operation == "icmp":
            operation = f"icmp {words[1]}"
        if words[-3] not in ("i64", "i1", "ptr"):
            raise NoScriptError
        self._compute(operation, result, words[-2], words[-1])

    def _compute(self, operation: str, result: str, left: str, right: str) -> None:
        if operation not in BINARY:
            raise NoScriptError
        a, b = self._value(left), self._value(right)
        if isinstance(a, int) and isinstance(b, int) and operation in _FOLDED:
            self._values[result] = _FOLDED[operation](a, b)
            return
        operands = self._register(left), self._register(right)
        self._script.do(BINARY[operation], *operands, self._result(result))

    def _element_address(self, result: str, words: Sequence[str]) -> None:
        # getelementptr inbounds i8 ptr BASE i64 INDEX
        element, base, index = words[-5], words[-3], words[-1]
        size = {"i8": 1, "i64": 8, "ptr": 8}.get(element)
        place, by = self._value(base), self._value(index)
        if size is None or isinstance(place, int):
            raise NoScriptError
        if isinstance(by, int):
            self._values[result] = Place(place.base, place.offset + by * size)
        elif size == 1:
            self._compute("add", result, base, index)
        else:
            raise NoScriptError

    def _load(self, result: str, words: Sequence[str]) -> None:
        # load i64 ptr ADDRESS align N
        if words[1] not in ("i64", "ptr"):
            raise NoScriptError
        place = self._value(words[3])
        if isinstance(place, int) or not 0 <= place.offset < _LIMIT:
            raise NoScriptError
        self._script.do(Operation.LOAD, place.base, place.offset, self._result(result))

    def _store(self, result: str, words: Sequence[str]) -> None:
        # store <8 x i64> splat (i64 0) ptr ADDRESS align N
        if words[1:7] != ["8", "x", "i64", "splat", "i64", "0"]:
            raise NoScriptError
        self._script.do(Operation.CLEAR, self._register(words[8]))

    def _alloca(self, result: str, words: Sequence[str]) -> None:
        # alloca [COUNT x TYPE] align N
        if words[3] not in ("i64", "ptr") or int(words[5]) > 64:
            raise NoScriptError
        first, made = self._script.fresh_line(int(words[1])), self._script.fresh()
        self._script.do(Operation.ADDRESS, first, 0, made)
        self._values[result] = Place(made, 0)

    def _call(self, result: str, words: Sequence[str]) -> None:
        # call TYPE @SYMBOL(TYPE VALUE ...)
        symbol, types, values = words[2][1:], words[3::2], words[4::2]
        if symbol.startswith("llvm."):
            self._intrinsic(symbol, result, values)
            return
        if words[1] != "void" or set(types) - {"i64", "ptr"}:
            raise NoScriptError
        procedure = self._script.procedure(symbol)
        self._script.call(procedure, [self._register(value) for value in values])

    def _intrinsic(self, symbol: str, result: str, values: Sequence[str]) -> None:
        name = symbol.split(".")[1]
        if name == "memcpy" and len(values) == 4:
            self._script.do(Operation.COPY, *map(self._register, values[:3]))
        elif symbol.endswith(".i64"):
            self._compute(name, result, *values)
        else:
            raise NoScriptError

    def _branch(self, result: str, words: Sequence[str]) -> None:
        # br label %THEN, or br i1 CONDITION label %THEN label %OTHERWISE
        if words[1] == "label":
            self._enter(words[2][1:])
            return
        then, otherwise = words[4][1:], words[6][1:]
        condition = self._register(words[2])
        at = len(self._script.code)
        self._script.do(Operation.BRANCH, condition)
        for place, target in ((at + 2, then), (at + 3, otherwise)):
            edge = f"{self._block}>{target}"
            if self._phis.get(target):
                self._labels[edge] = len(self._script.code) // 4
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
            raise NoScriptError
        for value, result in zip(given, taken, strict=True):
            self._script.do(Operation.MOVE, value, 0, result)
        self._jumps.append((len(self._script.code) + 1, target))
        self._script.do(Operation.JUMP)

    def _phi(self, name: str) -> int:
        self._registers_of_phis[name] = self._result(name)
        return self._registers_of_phis[name]

    def _same(self, result: str, words: Sequence[str]) -> None:
        # zext i1 VALUE to i64, or ptrtoint ptr VALUE to i64
        if words[1] not in ("i1", "ptr") or words[-1] != "i64":
            raise NoScriptError
        self._values[result] = self._value(words[2])

    def _fence(self, result: str, words: Sequence[str]) -> None:
        self._script.do(Operation.FENCE)

    def _return(self, result: str, words: Sequence[str]) -> None:
        self._jumps.append((len(self._script.code) + 1, ""))
        self._script.do(Operation.JUMP)

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
                raise NoScriptError
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
