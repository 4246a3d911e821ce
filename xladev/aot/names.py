"""Identifiers of C for what a program calls its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xladev.errors import UsageError
from xladev.hlo.ir import HloInstruction
from xladev.hlo.names import name_stem

_KEYWORDS = frozenset(
    [
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
        "case", "catch", "char", "class", "compl", "const", "constexpr", "const_cast", "continue",
        "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "errno",
        "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
        "int", "long", "main", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
        "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
        "reinterpret_cast", "restrict", "return", "short", "signed", "sizeof", "static",
        "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local",
        "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using",
        "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
    ]
)  # fmt: skip
"""Words of C99 and C++ that no program may be named."""

_LIBRARIES = frozenset(["c", "dl", "gcc", "m", "pthread", "rt"])
"""Libraries of every C program: ``libNAME.a`` in a folder of ``-L`` would take their place."""

_OF_NO_MEANING = re.compile(r"(arg|param|parameter|p|input)?_?\d*", re.IGNORECASE)
"""Names that exporters number: an op_name says more, where there is one."""

_SAME_FOR_ALL = frozenset({"", "XLA_Args"})


def check_program_name(name: str) -> str:
    """The name, if functions, files and macros can begin with it.

    Raises:
        UsageError: it is no identifier of C, or reserved.
    """
    is_identifier = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None and "__" not in name
    if not is_identifier or name in _KEYWORDS | _LIBRARIES:
        raise UsageError(
            f"a program cannot be named {name!r} in C",
            why="C, C++ or the linker has another use for it"
            if name in _KEYWORDS | _LIBRARIES
            else "a name has letters, digits and single underscores, and begins with a letter",
            hint=f"--name {program_name(name)}",
        )
    return name


def program_name(text: str) -> str:
    """What a program is called whose file, or whose user, calls it ``text``."""
    name = identifier(text)
    return f"{name}_program" if name in _KEYWORDS | _LIBRARIES else name


def identifier(text: str) -> str:
    """Letters, digits and underscores of ``text``: ``params['w'].1`` is ``params_w_1``."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    joined = "_".join(words) or "value"
    return joined if not joined[0].isdigit() else f"v{joined}"


def parameter_name(parameter: HloInstruction) -> str:
    """What a parameter is best called: its name without number, or else what its op is called."""
    stem = name_stem(parameter.name)
    op_name = parameter.note.metadata.op_name
    if _OF_NO_MEANING.fullmatch(stem) and op_name not in _SAME_FOR_ALL:
        return identifier(op_name)
    return identifier(stem)


def all_different(wanted: Iterable[str], fixed: Sequence[bool]) -> tuple[str, ...]:
    """The names, numbered where one comes again; case is ignored, as macros have only one.

    Args:
        wanted: identifiers.
        fixed: which of them the user chose.

    Raises:
        UsageError: two that the user chose are the same.
    """
    names = list(wanted)
    taken: set[str] = set()
    for name, is_fixed in zip(names, fixed, strict=True):
        if is_fixed and name.upper() in taken:
            raise UsageError(
                f"two values are named {name!r} in C",
                why="names differ in more than upper and lower case",
                hint="give one of them another name: NAME=WHAT",
            )
        taken |= {name.upper()} if is_fixed else set()
    return tuple(
        name if is_fixed else _free(name, taken)
        for name, is_fixed in zip(names, fixed, strict=True)
    )


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found.upper() in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found.upper())
    return found
