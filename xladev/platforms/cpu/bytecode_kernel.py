"""Kernels that only call microkernels, as part of bytecode: their instructions, one by one.

What is no number, no address and no call, as everything in vectors, has no place in bytecode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import I1, I8, I64, PTR, IrType, Value, constant, vector
from xladev.codegen.llvm.instructions import (
    AllocaInst,
    BinaryOperator,
    CallInst,
    CastInst,
    ConditionalBranch,
    FenceInst,
    GetElementPtrInst,
    Instruction,
    IntrinsicInst,
    Label,
    LoadInst,
    MemCpyInst,
    PhiNode,
    ReturnInst,
    StoreInst,
    UnconditionalBranch,
)
from xladev.platforms.cpu.bytecode import BINARY, SCRATCH, BytecodeOperation
from xladev.platforms.cpu.bytecode_code import BytecodeCode, Held, NoBytecodeError, Place

_LIMIT = 1 << 31
_WORDS = (I64, PTR)
"""What is 8 bytes in a register as it is in memory."""


def write_kernel(bytecode: BytecodeCode, name: str, arguments: Sequence[Place]) -> None:
    """Appends one run of a kernel.

    Args:
        bytecode: what is written.
        name: of a kernel in its module.
        arguments: addresses of the kernel's arrays.

    Raises:
        NoBytecodeError: it has to stay machine code; no instruction was appended.
    """
    code = bytecode.code
    try:
        _Kernel(bytecode, name, arguments).write()
    except NoBytecodeError:
        bytecode.code = code
        raise


class _Kernel:
    """One run of a kernel, written in its place.

    Addresses at a fixed distance from the kernel's own are worked out before it begins, so that
    loops need not.
    """

    def __init__(self, bytecode: BytecodeCode, name: str, arguments: Sequence[Place]) -> None:
        self._bytecode = bytecode
        function = bytecode.module.builder(name)
        self._instructions = function.instructions()
        self._values: dict[str, Held] = {}
        for parameter, place in zip(function.arguments, arguments, strict=True):
            self._values[parameter.text] = place
        self._outside = {place.base for place in arguments} | {SCRATCH}
        self._before: dict[Place, int] = {}
        self._labels: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []
        self._phis = _phis_of(self._instructions)
        self._registers_of_phis: dict[str, int] = {}
        self._block = ""

    def write(self) -> None:
        """Appends the kernel's instructions."""
        bytecode = self._bytecode
        outer, bytecode.code = bytecode.code, []
        for instruction in self._instructions:
            self._instruction(instruction)
        self._begin("")
        inner, bytecode.code = bytecode.code, outer
        for place, register in self._before.items():
            offset = bytecode.number(place.offset)
            bytecode.do(BINARY["add"], place.base, offset, register)
        base = len(bytecode.code) // 4
        for at, label in self._jumps:
            inner[at] = self._labels[label] + base
        bytecode.code += inner

    def _instruction(self, instruction: Instruction) -> None:
        match instruction:
            case Label(name):
                self._block = name
                self._begin(name)
            case BinaryOperator():
                self._binary(instruction)
            case GetElementPtrInst():
                self._address(instruction)
            case CallInst(symbol, arguments):
                self._call(symbol, arguments)
            case IntrinsicInst(name, operands, result):
                self._intrinsic(name, operands, result)
            case CastInst():
                self._cast(instruction)
            case PhiNode():
                pass  # those who enter its block give it its value
            case _:
                self._effect(instruction)

    def _effect(self, instruction: Instruction) -> None:
        """An instruction on memory, or one that ends its block."""
        bytecode = self._bytecode
        match instruction:
            case UnconditionalBranch(target):
                self._enter(target)
            case ConditionalBranch():
                self._split(instruction)
            case ReturnInst():
                self._jump("")
            case LoadInst():
                self._load(instruction)
            case StoreInst(value, address) if value == _CLEARED:
                bytecode.do(BytecodeOperation.CLEAR, self._register(address))
            case MemCpyInst(destination, source, nbytes):
                places = self._register(destination), self._register(source)
                bytecode.do(BytecodeOperation.COPY, *places, bytecode.number(nbytes))
            case FenceInst():
                bytecode.do(BytecodeOperation.FENCE)
            case AllocaInst():
                self._alloca(instruction)
            case _:
                raise NoBytecodeError

    def _begin(self, label: str) -> None:
        """What follows has a label; a jump to it right before it is none."""
        code = self._bytecode.code
        if self._jumps and self._jumps[-1] == (len(code) - 3, label):
            self._jumps.pop()
            del code[-4:]
        self._labels[label] = len(code) // 4

    # Values

    def _value(self, value: Value) -> Held:
        if value.text in self._values:
            return self._values[value.text]
        if value.symbol:
            return Place(self._bytecode.table_of(value.symbol), 0)
        if value.number is None:
            raise NoBytecodeError
        return value.number

    def _register(self, operand: Value) -> int:
        value = self._value(operand)
        if isinstance(value, int) or not value.offset:
            return self._bytecode.register(value)
        if value.base not in self._outside and value.base >= 0:
            return self._bytecode.register(value)
        if value not in self._before:
            self._before[value] = self._bytecode.fresh()
        return self._before[value]

    def _result(self, name: str) -> int:
        """A new register for a name."""
        made = self._bytecode.fresh()
        self._values[name] = Place(made, 0)
        return made

    # Instructions

    def _binary(self, i: BinaryOperator) -> None:
        if i.left.type not in (I64, I1, PTR):
            raise NoBytecodeError
        self._compute(i.opcode.removesuffix(" nsw"), i.result, i.left, i.right)

    def _compute(self, operation: str, result: str, left: Value, right: Value) -> None:
        if operation not in BINARY:
            raise NoBytecodeError
        a, b = self._value(left), self._value(right)
        if isinstance(a, int) and isinstance(b, int) and operation in _FOLDED:
            self._values[result] = _FOLDED[operation](a, b)
            return
        operands = self._register(left), self._register(right)
        self._bytecode.do(BINARY[operation], *operands, self._result(result))

    def _address(self, i: GetElementPtrInst) -> None:
        nbytes = _NBYTES.get(i.element)
        place, by = self._value(i.base), self._value(i.offset)
        if nbytes is None or isinstance(place, int):
            raise NoBytecodeError
        if isinstance(by, int):
            self._values[i.result] = Place(place.base, place.offset + by * nbytes)
        elif nbytes == 1:
            self._compute("add", i.result, i.base, i.offset)
        else:
            raise NoBytecodeError

    def _load(self, i: LoadInst) -> None:
        if i.type not in _WORDS:
            raise NoBytecodeError
        place = self._value(i.address)
        if isinstance(place, int) or not 0 <= place.offset < _LIMIT:
            raise NoBytecodeError
        self._bytecode.do(BytecodeOperation.LOAD, place.base, place.offset, self._result(i.result))

    def _alloca(self, i: AllocaInst) -> None:
        if i.type not in _WORDS or i.align > 64:
            raise NoBytecodeError
        first, made = self._bytecode.fresh_line(i.size), self._bytecode.fresh()
        self._bytecode.do(BytecodeOperation.ADDRESS, first, 0, made)
        self._values[i.result] = Place(made, 0)

    def _call(self, symbol: str, arguments: Sequence[Value]) -> None:
        if any(a.type not in _WORDS for a in arguments):
            raise NoBytecodeError
        function = self._bytecode.function(symbol)
        self._bytecode.call(function, [self._register(a) for a in arguments])

    def _intrinsic(self, name: str, operands: Sequence[Value], result: str) -> None:
        if len(operands) != 2 or operands[0].type != I64:
            raise NoBytecodeError
        self._compute(name, result, *operands)

    def _cast(self, i: CastInst) -> None:
        is_same = i.opcode in ("zext", "ptrtoint") and i.value.type in (I1, PTR)
        if not is_same or i.type != I64:
            raise NoBytecodeError
        self._values[i.result] = self._value(i.value)

    def _jump(self, target: str) -> None:
        self._jumps.append((len(self._bytecode.code) + 1, target))
        self._bytecode.do(BytecodeOperation.JUMP)

    def _split(self, i: ConditionalBranch) -> None:
        condition = self._register(i.condition)
        at = len(self._bytecode.code)
        self._bytecode.do(BytecodeOperation.BRANCH, condition)
        for place, target in ((at + 2, i.then), (at + 3, i.otherwise)):
            edge = f"{self._block}>{target}"
            if self._phis.get(target):
                self._labels[edge] = len(self._bytecode.code) // 4
                self._enter(target)
                self._jumps.append((place, edge))
            else:
                self._jumps.append((place, target))

    def _enter(self, target: str) -> None:
        """Goes to a block, and gives it what it takes from this one."""
        phis = self._phis.get(target, ())
        given = [self._register(_by_edge(phi, self._block)) for phi in phis]
        taken = [self._registers_of_phis.get(p.result) or self._phi(p.result) for p in phis]
        if set(given) & set(taken):
            raise NoBytecodeError
        for value, result in zip(given, taken, strict=True):
            self._bytecode.do(BytecodeOperation.MOVE, value, 0, result)
        self._jump(target)

    def _phi(self, name: str) -> int:
        self._registers_of_phis[name] = self._result(name)
        return self._registers_of_phis[name]


def _phis_of(instructions: Sequence[Instruction]) -> dict[str, list[PhiNode]]:
    """The phis of each block."""
    found: dict[str, list[PhiNode]] = {}
    block = ""
    for instruction in instructions:
        if isinstance(instruction, Label):
            block = instruction.name
        elif isinstance(instruction, PhiNode):
            if instruction.type not in _WORDS:
                raise NoBytecodeError
            found.setdefault(block, []).append(instruction)
    return found


def _by_edge(phi: PhiNode, block: str) -> Value:
    """What a phi takes from one of its predecessors."""
    return next(value for value, predecessor in phi.edges if predecessor == block)


_CLEARED = constant(vector(I64, 8), 0)

_NBYTES: Mapping[IrType, int] = MappingProxyType({I8: 1, I64: 8, PTR: 8})

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
