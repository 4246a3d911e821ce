"""What a C program sees of a compiled one: named, typed buffers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xladev.aot.names import all_different, identifier, parameter_name
from xladev.aot.prune import Pruned, Wanted
from xladev.compiler.signature import Signature
from xladev.errors import UnsupportedError, UsageError
from xladev.hlo.physical import is_plain, physical_nbytes
from xladev.hlo.shape import Shape

C_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "pred": "uint8_t",
        "f32": "float",
        "f64": "double",
        "f16": "uint16_t",
        "bf16": "uint16_t",
        "c64": "complex64",
        "c128": "complex128",
        **{f"{sign}{bits}": f"{'u' if sign == 'u' else ''}int{max(bits, 8)}_t"
           for sign in "su" for bits in (1, 2, 4, 8, 16, 32, 64)},
    }
)  # fmt: skip
"""The C type of one element, by HLO's name; floats of 8 bits and fewer are uint8_t."""

BEST_ALIGNMENT = 64
"""Where buffers begin at multiples of so many bytes, no vector crosses two cache lines."""

TYPE_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "pred": "0 is false, 1 is true, nothing else is allowed",
        "f16": "the bits of an IEEE 754 binary16",
        "bf16": "the bits of a bfloat16: the upper half of a float",
        "c64": "real and imaginary part, as float _Complex",
        "c128": "real and imaginary part, as double _Complex",
    }
)


@dataclass(frozen=True, slots=True)
class CValue:
    """One argument or result.

    Attributes:
        name: in C.
        source: what it is in HLO.
        shape: of the array.
        alias: name of the argument in whose place a result is computed, or of the result that is
            computed in the place of an argument; empty for none.
        partner: number of that argument or result; -1 for none.
    """

    name: str
    source: str
    shape: Shape
    alias: str = ""
    partner: int = -1

    @property
    def nbytes(self) -> int:
        """Size of the buffer, in bytes."""
        return physical_nbytes(self.shape)

    @property
    def note(self) -> str:
        """What the C type does not say about an element; empty if it says all."""
        element = self.shape.element_type
        if element.name in TYPE_NOTES:
            return TYPE_NOTES[element.name]
        if element.bits < 8:
            return f"one {element.name} in each byte, in its low {element.bits} bits"
        return f"the bits of an {element.name}" if element.name.startswith("f8") else ""

    def c_type(self, program: str) -> str:
        """Type of one element, in the header of ``program``."""
        name = C_TYPES.get(self.shape.element_type.name, "uint8_t")
        return f"{program}_{name}" if name.startswith("complex") else name


@dataclass(frozen=True, slots=True)
class Interface:
    """The C interface of one program.

    Attributes:
        name: prefix of all names in C.
        arguments: in the order of the entry's table.
        results: in the order of the entry's table.
        scratch_nbytes: memory that one run works in.
        alignment: of scratch memory and of every buffer, in bytes.
        entry: symbol of the object code.
        target: what the code is for.
        module: name of the HLO module.
        threads: most threads that work on one run.
    """

    name: str
    arguments: tuple[CValue, ...]
    results: tuple[CValue, ...]
    scratch_nbytes: int
    alignment: int
    entry: str
    target: str
    module: str
    threads: int = 1

    @property
    def values(self) -> tuple[CValue, ...]:
        """Arguments and results."""
        return self.arguments + self.results

    @property
    def result_offsets(self) -> tuple[int | None, ...]:
        """Where each result is in the memory of a context; None for one in an argument's place.

        Scratch memory comes first.
        """
        offsets: list[int | None] = []
        at = _rounded(self.scratch_nbytes)
        for result in self.results:
            offsets.append(None if result.alias else at)
            at += 0 if result.alias else _rounded(result.nbytes)
        return tuple(offsets)

    @property
    def memory_nbytes(self) -> int:
        """Scratch memory and all results that are not in an argument's place; never 0."""
        own = (_rounded(r.nbytes) for r in self.results if not r.alias)
        return max(_rounded(self.scratch_nbytes) + sum(own), BEST_ALIGNMENT)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // BEST_ALIGNMENT) * BEST_ALIGNMENT


def interface_of(
    module: str, signature: Signature, pruned: Pruned, entry: str, alignment: int
) -> Interface:
    """The C interface of an executable.

    Args:
        module: name of the program as it was given.
        signature: of the executable; its name is that of the program in C.
        pruned: the program that it was compiled from.
        entry: symbol of its code.
        alignment: that its code needs.

    Raises:
        UnsupportedError: a buffer that C has no way to pass.
        UsageError: names in C that are none, or twice the same.
    """
    arguments = list(_arguments(signature, pruned))
    results = list(_results(signature, pruned))
    for _, _, source, shape in (*arguments, *results):
        _check_shape(source, shape)
    names = [
        all_different([n for n, *_ in some], [fixed for _, fixed, *_ in some])
        for some in (arguments, results)
    ]
    of_result = {a.result: a.parameter for a in signature.aliases}
    of_argument = {a.parameter: a.result for a in signature.aliases}
    return Interface(
        name=signature.name,
        arguments=_values(names[0], arguments, of_argument, names[1]),
        results=_values(names[1], results, of_result, names[0]),
        scratch_nbytes=signature.scratch_nbytes,
        alignment=alignment,
        entry=entry,
        target=signature.target,
        module=module,
    )


_Draft = tuple[str, bool, str, Shape]
"""Name in C, whether the user chose it, what it is in HLO, shape."""


def _values(
    names: Sequence[str],
    drafts: Sequence[_Draft],
    partners: Mapping[int, int],
    others: Sequence[str],
) -> tuple[CValue, ...]:
    return tuple(
        CValue(
            name,
            source,
            shape,
            others[partners[at]] if at in partners else "",
            partners.get(at, -1),
        )
        for at, (name, (_, _, source, shape)) in enumerate(zip(names, drafts, strict=True))
    )


def _arguments(signature: Signature, pruned: Pruned) -> Iterator[_Draft]:
    pairs = zip(signature.parameters, pruned.arguments, strict=True)
    for shape, (instruction, chosen) in pairs:
        _check_chosen(chosen)
        name = chosen or parameter_name(instruction)
        for index, leaf in shape.leaves():
            suffix = "".join(f"_{number}" for number in index)
            source = f"{instruction.opcode} {instruction.name}"
            yield name + suffix, bool(chosen), _with_index(source, index), leaf


def _results(signature: Signature, pruned: Pruned) -> Iterator[_Draft]:
    several = len(pruned.results) > 1
    for index, leaf in signature.result.leaves():
        if not pruned.results:
            name = "_".join(map(str, index)) or "0"
            yield name, False, _with_index("result", index), leaf
            continue
        wanted = pruned.results[index[0] if several else 0]
        rest = index[1:] if several else index
        source = wanted.source
        _check_chosen(wanted.name)
        suffix = "".join(f"_{number}" for number in rest)
        name = wanted.name or _default_name(wanted)
        yield name + suffix, bool(wanted.name), _with_index(source, rest), leaf


def _default_name(wanted: Wanted) -> str:
    """The index of a result of the program, or the name of the instruction."""
    if wanted.result is None:
        return identifier(wanted.source)
    return "_".join(map(str, wanted.result)) or "0"


def _with_index(source: str, index: Sequence[int]) -> str:
    return f"{source}{{{','.join(map(str, index))}}}" if index else source


def _check_chosen(name: str) -> None:
    if name and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is None:
        raise UsageError(
            f"a value cannot be named {name!r} in C",
            why="a name has letters, digits and underscores, and begins with a letter",
            hint=f"name it {identifier(name)}",
        )


def _check_shape(source: str, shape: Shape) -> None:
    if not shape.is_array:
        raise UnsupportedError(
            f"{source} is a {shape.element_type.name}",
            where=source,
            why="an object file passes arrays only",
            hint="--fetch the results that are arrays",
        )
    if shape.is_dynamic or not is_plain(shape):
        raise UnsupportedError(
            f"{source} is {shape}",
            where=source,
            why="an object file passes arrays of fixed sizes, in the order of C",
            hint="fix the sizes (`--constant`), or --fetch other results",
        )
