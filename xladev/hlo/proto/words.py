"""Enumerations: their names in the .proto files <-> their spelling in HLO text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from xladev.hlo.proto.schema import ENUM_TYPES

_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ConvolutionKind": "CONVOLUTION_KIND_",
        "PrecisionConfig.Algorithm": "ALG_",
        "PrecisionConfig.Precision": "",
        "RandomAlgorithm": "",
        "RandomDistribution": "",
        "TriState": "TRI_STATE_",
    }
)
"""Enumerations that text spells in lower case, without this prefix; others as they are."""

_UNSET: Final = frozenset(
    {
        "CONVOLUTION_KIND_UNSET",
        "ALG_UNSET",
        "API_VERSION_UNSPECIFIED",
        "RNG_INVALID",
        "TRANSPOSE_INVALID",
        "TRI_STATE_UNSPECIFIED",
    }
)
"""Values that say "not set"."""


def _spelling(enum: str, name: str) -> str:
    prefix = _PREFIXES.get(enum)
    return name if prefix is None else name.removeprefix(prefix).lower()


_WORDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        enum: {name: _spelling(enum, name) for name in spec.numbers if name not in _UNSET}
        for enum, spec in ENUM_TYPES.items()
    }
)
_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {enum: {word: name for name, word in words.items()} for enum, words in _WORDS.items()}
)


def to_word(enum: str, name: str) -> str | None:
    """Text spelling of a value; None for one that says "not set"."""
    return _WORDS[enum].get(name)


def words_of(enum: str) -> frozenset[str] | None:
    """Every spelling of an enumeration's values; None if there is no such enumeration."""
    return frozenset(_NAMES[enum]) if enum in _NAMES else None


def to_name(enum: str, word: str) -> str | None:
    """Name of the value that text spells ``word``; None where the enum has no such value."""
    return _NAMES[enum].get(word)
