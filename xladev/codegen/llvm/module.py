"""An LLVM module as text: functions, declarations, constant tables, metadata, attributes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from xladev.codegen.llvm.control import Control
from xladev.codegen.llvm.instructions import CallInst
from xladev.codegen.llvm.intrinsics import lookup
from xladev.codegen.llvm.memory import MemoryEmitter, natural_alignment
from xladev.codegen.llvm.portable import EMITTERS
from xladev.codegen.llvm.target import TargetTraits
from xladev.codegen.llvm.types import PTR, VOID, IrType
from xladev.codegen.llvm.values import Operand, Value, constant
from xladev.errors import CompileError


@dataclass(frozen=True, slots=True)
class Parameter:
    """A function parameter: type, name, and attributes such as ``noalias readonly align 64``."""

    type: IrType
    name: str
    attributes: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.type.text, self.attributes, f"%{self.name}")))


@dataclass(frozen=True, slots=True)
class ConstantTable:
    """A constant array: its numbers, and the type of each."""

    element: IrType
    numbers: tuple[float | int, ...]


class FunctionBuilder(Control, MemoryEmitter):
    """Emits the body of one function; see the base classes for the vocabulary."""

    module: ModuleBuilder

    def __init__(
        self, module: ModuleBuilder, name: str, result: IrType, parameters: Sequence[Parameter]
    ) -> None:
        super().__init__(module, name, result)
        self.arguments = tuple(Value(f"%{p.name}", p.type) for p in parameters)

    def intrinsic(self, name: str, *operands: Operand, result: IrType | None = None) -> Value:
        """See `Arithmetic.intrinsic`; what the target has no instruction for by other means."""
        emit = EMITTERS.get(name) if name in self.module.target.missing else None
        if emit is None:
            return super().intrinsic(name, *operands, result=result)
        first = next(o for o in operands if isinstance(o, Value))
        kind = first.type.scalar() if lookup(name).result == "element" else first.type
        return self.call_shared(name, kind, [self.like(o, first) for o in operands], emit)

    def call(self, symbol: str, result: IrType, *arguments: Value) -> Value:
        """Calls a function defined or declared in the module."""
        listed = ", ".join(str(a) for a in arguments)
        return self.emit(result, f"call {result.text} @{symbol}({listed})")

    def call_void(self, symbol: str, *arguments: Value) -> None:
        """Calls a function that returns nothing."""
        self.do(f"call void @{symbol}({', '.join(str(a) for a in arguments)})")
        if self._keeps:
            self._note(CallInst(symbol, arguments))

    def call_shared(
        self, name: str, result: IrType, arguments: Sequence[Value], emit: SharedEmitter
    ) -> Value:
        """Calls an internal function that the module defines once per name and argument types.

        ``emit(builder, arguments)`` returns the result of the body; it runs on the first call.
        """
        symbol = ".".join(["xladev", name, *(a.type.mangled for a in arguments)])
        self.module.define_shared(symbol, result, [a.type for a in arguments], emit)
        return self.call(symbol, result, *arguments)

    def call_microkernel(
        self,
        name: str,
        arguments: Sequence[Value],
        emit: MicrokernelEmitter,
        *,
        is_long: bool = True,
    ) -> None:
        """As `call_shared`, for a function that returns nothing and is never inlined.

        The name alone says which function it is, so that programs may share one. It is long if
        loops around calls take little time beside it.
        """
        symbol = f"xladev.{name}"
        self.loops.call(is_long=is_long)
        self.module.define_microkernel(symbol, [a.type for a in arguments], emit)
        self.call_void(symbol, *arguments)

    def call_shared_many(
        self,
        name: str,
        results: Sequence[IrType],
        arguments: Sequence[Value],
        emit: SharedManyEmitter,
    ) -> tuple[Value, ...]:
        """As `call_shared`, for a function of several results: ``emit`` returns one of each."""
        together = IrType(f"{{ {', '.join(t.text for t in results)} }}")

        def emit_together(b: FunctionBuilder, values: tuple[Value, ...]) -> Value:
            total = Value("poison", together)
            for index, value in enumerate(emit(b, values)):
                total = b.emit(together, f"insertvalue {total}, {value}, {index}")
            return total

        packed = self.call_shared(name, together, arguments, emit_together)
        return tuple(
            self.emit(type_, f"extractvalue {packed}, {index}")
            for index, type_ in enumerate(results)
        )


SharedEmitter = Callable[[FunctionBuilder, tuple[Value, ...]], Value]
MicrokernelEmitter = Callable[[FunctionBuilder, tuple[Value, ...]], None]
SharedManyEmitter = Callable[[FunctionBuilder, tuple[Value, ...]], Sequence[Value]]


_SYMBOL = re.compile(r"@([\w.]+)")
MOST_INLINED = 48
"""Lines of a shared function up to which every call gets a copy; a single call always does."""


def plain_name(name: str) -> str:
    """``name`` with nothing in it that LLVM's grammar could take for more than a name."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in name)


class ModuleBuilder:
    """Collects the parts of a module; ``str(module)`` is LLVM assembly.

    Names of modules come from files, so they are made plain before they become text.

    Args:
        name: of the module.
        target: what code is for.
        provided: microkernels that whoever loads the code has; they are declared.
    """

    def __init__(
        self,
        name: str,
        target: TargetTraits | None = None,
        provided: Container[str] = frozenset(),
    ) -> None:
        self.name = plain_name(name)
        self.target = target or TargetTraits()
        self._functions: dict[str, tuple[str, FunctionBuilder]] = {}
        self._internal: set[str] = set()
        self._shared: set[str] = set()
        self._provided = provided
        self._microkernels: dict[str, None] = {}
        self._is_in_microkernel = False
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._tables: dict[str, ConstantTable] = {}
        self._bytes: dict[str, tuple[bytes, int]] = {}
        self._exports: list[str] = []
        self._metadata: list[str] = []

    def function(
        self,
        name: str,
        result: IrType,
        parameters: Sequence[Parameter] = (),
        *,
        linkage: str = "",
        attributes: str = "",
    ) -> FunctionBuilder:
        """Begins the definition of a function; CompileError if the name is taken."""
        if name in self._functions:
            raise CompileError(f"@{name} is defined twice", where=f"module {self.name}")
        listed = ", ".join(str(p) for p in parameters)
        words = ("define", linkage, result.text, f"@{name}({listed})", "#0", attributes)
        builder = FunctionBuilder(self, name, result, parameters)
        if linkage == "internal":
            self._internal.add(name)
        self._functions[name] = (" ".join(filter(None, words)), builder)
        return builder

    def define_shared(
        self, symbol: str, result: IrType, types: Sequence[IrType], emit: SharedEmitter
    ) -> None:
        """Defines an internal function unless the module has it."""
        if symbol in self._functions:
            return
        parameters = [Parameter(t, f"a{i}") for i, t in enumerate(types)]
        builder = self.function(symbol, result, parameters, linkage="internal")
        self._shared.add(symbol)
        builder.ret(emit(builder, builder.arguments))

    def define_microkernel(
        self, symbol: str, types: Sequence[IrType], emit: MicrokernelEmitter
    ) -> None:
        """Defines an internal function without a result, unless the module has it or gets it.

        What a microkernel calls is defined, though it be provided: the code of each stands alone.
        """
        self._microkernels[symbol] = None
        if symbol in self._provided and not self._is_in_microkernel:
            self.declare(symbol, VOID, [t.text for t in types])
            return
        if symbol in self._functions:
            return
        parameters = [Parameter(t, f"a{i}") for i, t in enumerate(types)]
        builder = self.function(symbol, VOID, parameters, linkage="internal", attributes="noinline")
        outer, self._is_in_microkernel = self._is_in_microkernel, True
        try:
            emit(builder, builder.arguments)
        finally:
            self._is_in_microkernel = outer
        builder.ret()

    def declare_intrinsic(self, symbol: str, result: IrType, types: Sequence[str]) -> None:
        """Declares an intrinsic that `Arithmetic.intrinsic` has checked."""
        if symbol not in self._declarations:
            self._declarations[symbol] = f"declare {result.text} @{symbol}({', '.join(types)})"

    def declare(self, symbol: str, result: IrType, types: Sequence[str]) -> None:
        """Declares a function that whoever loads the code provides."""
        self.declare_intrinsic(symbol, result, types)

    def declares(self, symbol: str) -> bool:
        """Whether a function was declared."""
        return symbol in self._declarations

    def declared(self, prefix: str) -> tuple[str, ...]:
        """Declared functions whose names begin so, in order."""
        return tuple(symbol for symbol in self._declarations if symbol.startswith(prefix))

    def mark(self) -> int:
        """How many functions there are, for `reset`."""
        return len(self._functions)

    def reset(self, mark: int) -> None:
        """Forgets functions begun since a mark."""
        for name in list(self._functions)[mark:]:
            del self._functions[name]

    def constant_table(
        self, name: str, element: IrType, numbers: tuple[float | int, ...], align: int = 64
    ) -> Value:
        """Address of a constant array, made once per name."""
        symbol = f"xladev.table.{name}"
        if symbol not in self._globals:
            self._tables[symbol] = ConstantTable(element, numbers)
            items = ", ".join(str(constant(element, number)) for number in numbers)
            self._globals[symbol] = (
                f"@{symbol} = internal constant [{len(numbers)} x {element}] [{items}], "
                f"align {max(align, natural_alignment(element))}"
            )
        return Value(f"@{symbol}", PTR)

    def constant_bytes(self, symbol: str, data: bytes, align: int = 64) -> Value:
        """Address of constant bytes that are part of the module, made once per symbol."""
        self._bytes.setdefault(symbol, (data, align))
        self._globals.setdefault(symbol, "")
        return Value(f"@{symbol}", PTR)

    def external_word(self, symbol: str) -> Value:
        """Address of a pointer that whoever loads the code provides."""
        self._globals[symbol] = f"@{symbol} = external global ptr"
        return Value(f"@{symbol}", PTR)

    def pointer_array(self, symbol: str, count: int) -> Value:
        """Address of an exported array of pointers, null until someone fills it."""
        self._exports.append(f"@{symbol} = global [{count} x ptr] zeroinitializer, align 8")
        return Value(f"@{symbol}", PTR)

    def function_array(self, symbol: str, names: Sequence[str]) -> None:
        """An exported array of the addresses of functions."""
        items = ", ".join(f"ptr @{name}" for name in names)
        self._exports.append(f"@{symbol} = global [{len(names)} x ptr] [{items}], align 8")

    def metadata(self, body: str) -> str:
        """Adds a metadata node such as ``!{i32 1}``; its reference, such as ``!4``."""
        if not body.startswith("distinct") and body in self._metadata:
            return f"!{self._metadata.index(body)}"
        self._metadata.append(body)
        return f"!{len(self._metadata) - 1}"

    def alias_scopes(self, count: int) -> list[str]:
        """Load and store metadata for ``count`` memory regions that do not overlap.

        Entry i marks an access as inside region i and outside all the others.
        """
        domain = self.metadata(f'distinct !{{!"{self.name}.{len(self._metadata)}"}}')
        scopes = [self.metadata(f'distinct !{{!"r{i}", {domain}}}') for i in range(count)]
        lists = [self.metadata(f"!{{{scope}}}") for scope in scopes]
        others = [
            self.metadata(f"!{{{', '.join(s for s in scopes if s != scope)}}}") for scope in scopes
        ]
        return [
            f"!alias.scope {own}, !noalias {rest}" for own, rest in zip(lists, others, strict=True)
        ]

    def __str__(self) -> str:
        return self._text(self._functions, self._mentions(), has_exports=True)

    def builder(self, name: str) -> FunctionBuilder:
        """The builder of a function that was begun."""
        return self._functions[name][1]

    def table_of(self, symbol: str) -> ConstantTable | None:
        """What `constant_table` made; None if that is nothing of this name."""
        return self._tables.get(symbol)

    def bytes_of(self, symbol: str) -> bytes | None:
        """What `constant_bytes` was given; None if that is nothing of this name."""
        return self._bytes[symbol][0] if symbol in self._bytes else None

    def _global(self, symbol: str) -> str:
        """The line of a global; that of bytes is long, and made only where text is wanted."""
        if symbol not in self._bytes:
            return self._globals[symbol]
        data, align = self._bytes[symbol]
        text = "\\" + data.hex("\\") if data else ""
        held = f'constant [{len(data)} x i8] c"{text}"'
        return f"@{symbol} = internal unnamed_addr {held}, align {align}"

    @property
    def names(self) -> tuple[str, ...]:
        """Functions that are not internal, in the order of their definitions."""
        return tuple(name for name in self._functions if name not in self._internal)

    def scalar_trips(self, names: Iterable[str]) -> dict[str, int]:
        """Of each function: most iterations of a loop over single elements, in what it uses too.

        Functions that call long microkernels leave the work to them: 0.
        """
        mentions = self._mentions()
        loops = {name: b.loops.scalar_trips for name, (_, b) in self._functions.items()}
        trips: dict[str, int] = {}
        for name in names:
            within = self._within(name, mentions)
            is_driver = any(self._functions[n][1].loops.leaves_work for n in within)
            trips[name] = 0 if is_driver else max(loops[n] for n in within)
        return trips

    def busy_trips(self, names: Iterable[str]) -> dict[str, int]:
        """Of functions that call long microkernels: most iterations of a loop that calls none."""
        mentions = self._mentions()
        trips: dict[str, int] = {}
        for name in names:
            within = self._within(name, mentions)
            loops = [self._functions[n][1].loops for n in within]
            if any(each.leaves_work for each in loops):
                trips[name] = max(each.busy_trips for each in loops)
        return trips

    def part(self, names: Iterable[str], *, has_exports: bool = False) -> str:
        """Assembly of some functions and of the internal ones that they use; others are declared.

        Microkernels are such others, unless they are named themselves.

        Args:
            names: of functions.
            has_exports: whether exported arrays are defined here; nobody else may name them.
        """
        mentions = self._mentions()
        kept = {n for name in names for n in self._within(name, mentions)}
        return self._text(kept, mentions, has_exports=has_exports)

    def microkernels(self) -> tuple[str, ...]:
        """The microkernels that functions call which are none themselves."""
        mentions = self._mentions()
        called = {s for name in mentions if name not in self._microkernels for s in mentions[name]}
        return tuple(symbol for symbol in self._microkernels if symbol in called)

    def microkernel(self, symbol: str) -> str:
        """Assembly of a module that exports one microkernel, with all that it uses."""
        mentions = self._mentions()
        found, pending = {symbol}, [symbol]
        while pending:
            used = self._internal.intersection(mentions[pending.pop()], mentions) - found
            found |= used
            pending += used
        return self._text(found, mentions, exported=symbol)

    def _text(
        self,
        kept: Container[str],
        mentions: Mapping[str, Counter[str]],
        *,
        has_exports: bool = False,
        exported: str = "",
    ) -> str:
        defined = [n for n in self._functions if n in kept]
        used = {symbol for name in defined for symbol in mentions[name]}
        for line in self._exports if has_exports else ():
            used.update(_SYMBOL.findall(line))
        parts = [f"; ModuleID = '{self.name}'"]
        if self.target.data_layout:
            parts.append(f'target datalayout = "{self.target.data_layout}"')
        if self.target.triple:
            parts.append(f'target triple = "{self.target.triple}"')
        parts.extend(self._exports if has_exports else ())
        parts.extend(self._global(name) for name in self._globals if name in used)
        parts.extend(self._definition(n, mentions, is_exported=n == exported) for n in defined)
        declared = used.difference(defined)
        here = [n for n in self._functions if n in declared and n not in self._declarations]
        parts.extend(self._declaration(n) for n in here)
        parts.extend(line for name, line in self._declarations.items() if name in declared)
        parts.append(f"attributes #0 = {{ {' '.join(self.target.function_attributes)} }}")
        parts.extend(f"!{i} = {body}" for i, body in enumerate(self._metadata))
        return "\n\n".join(parts) + "\n"

    def _mentions(self) -> dict[str, Counter[str]]:
        """The symbols in each function, and how often."""
        bodies = ((name, b.body()) for name, (_, b) in self._functions.items())
        return {name: Counter(_SYMBOL.findall(body)) for name, body in bodies}

    def _within(self, name: str, mentions: Mapping[str, Counter[str]]) -> list[str]:
        """A function, and all internal ones that it needs but microkernels."""
        found, pending = {name: None}, [name]
        inside = self._internal.difference(self._microkernels)
        while pending:
            for symbol in mentions[pending.pop()]:
                if symbol in inside and symbol in mentions and symbol not in found:
                    found[symbol] = None
                    pending.append(symbol)
        return list(found)

    def _definition(
        self, name: str, mentions: Mapping[str, Counter[str]], *, is_exported: bool = False
    ) -> str:
        header, builder = self._functions[name]
        if is_exported:
            header = header.replace("define internal ", "define ", 1)
        body = builder.body()
        if name in self._shared:
            calls = sum(symbols[name] for symbols in mentions.values())
            is_inlined = calls == 1 or body.count("\n") <= MOST_INLINED
            header += " alwaysinline" if is_inlined else ""
        return f"{header} {{\n{body}\n}}"

    def _declaration(self, name: str) -> str:
        builder = self._functions[name][1]
        types = ", ".join(a.type.text for a in builder.arguments)
        return f"declare {builder.result.text} @{name}({types})"
