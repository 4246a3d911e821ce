"""Where HLO text differs from the opset: words of enumerations, other spellings, omissions.

Text has had several dialects; each table names the one that an entry is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from xladev.hlo.opdef import Attr
from xladev.hlo.proto.path import path_of
from xladev.hlo.proto.words import words_of
from xladev.hlo.text.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Spelling:
    """Another spelling of an attribute: its name in the opset, and how its value differs."""

    name: str
    parse: Callable[[Cursor], Any] | None = None


def _parse_order(cursor: Cursor) -> str:
    """``TOTAL`` or ``PARTIAL``, where others say TOTALORDER and FLOAT."""
    start = cursor.start
    order = cursor.word("TOTAL or PARTIAL")
    if order not in _ORDERS:
        cursor.fail(f"expected TOTAL or PARTIAL, not {order!r}", start)
    return _ORDERS[order]


_ORDERS = {"TOTAL": "TOTALORDER", "PARTIAL": "FLOAT"}

OTHER_SPELLINGS: Mapping[tuple[str, str], Spelling] = MappingProxyType(
    {
        ("compare", "order"): Spelling("type", _parse_order),  # jaxlib 0.12
        ("convolution", "conv_kind"): Spelling("convolution_kind"),  # XLA before jaxlib 0.10
        ("reduce-scatter", "calls"): Spelling("to_apply"),  # canonical form
        ("scan", "calls"): Spelling("to_apply"),  # canonical form
    }
)
"""(opcode, name in text) -> what the opset calls it."""

IGNORED = frozenset({("collective", "mode"), ("async", "mode")})
"""(category, attribute) that XLA reads and forgets, as it follows from the others."""

ABSENT: Mapping[str, tuple[tuple[str, Any], ...]] = MappingProxyType(
    {"topk": (("is_stable", True),)}
)
"""What text means by leaving an attribute out, where that is not what a proto means by it."""

_WORDS: Mapping[tuple[str, str], frozenset[str]] = MappingProxyType(
    {
        ("compare", "direction"): frozenset({"EQ", "NE", "GE", "GT", "LE", "LT"}),
        ("compare", "type"): frozenset({"FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"}),
        ("fusion", "kind"): frozenset({"kLoop", "kInput", "kOutput", "kCustom"}),
        ("shuffle", "mode"): frozenset({"rotate"}),
    }
)
"""Words of attributes that protos keep as strings or messages."""

UNSET = frozenset({"unset", "dot_unset"})
"""Words that say what leaving the attribute out says."""


@cache
def known_words(opcode: str, attr: Attr) -> frozenset[str] | None:
    """The words that an attribute may be; None where any will do."""
    found = _WORDS.get((opcode, attr.name))
    if found is not None:
        return found
    return words_of(path_of(attr.proto or attr.name).field.type_name)
