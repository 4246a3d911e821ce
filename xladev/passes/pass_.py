"""What a pass is: a frozen dataclass whose fields are its options, and a function on modules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

from xladev.errors import OptionError
from xladev.hlo.ir import HloModule

_TEXTUAL = (bool, int, float, str)
"""Types of options that can be given as text; others come from the platform."""


class HloModulePass(ABC):
    """Base of passes; a subclass is a frozen dataclass, and its fields are its options.

    A pass keeps what a program means, never changes a module in place, and returns the very same
    module where there was nothing to do.

    Attributes:
        name: for the registry, filters, dumps and timings; lower case with hyphens.
        only_for: opcodes of which a module has at least one if the pass changes it: pipelines skip
            the pass otherwise. None if it may change modules without any.
    """

    __slots__ = ()
    name: ClassVar[str]
    only_for: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def run(self, module: HloModule) -> HloModule:
        """The changed module, or ``module`` itself if nothing changed."""

    @classmethod
    def options(cls) -> Mapping[str, Any]:
        """Options that can be given as text, by name, with their defaults."""
        found = {f.name: f.default for f in fields(cls)}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if isinstance(value, _TEXTUAL)}

    def with_options(self, texts: Mapping[str, str]) -> Self:
        """This pass with options changed to what is given as text.

        Raises:
            OptionError: an unknown option, or a value of another type than the default's.
        """
        known = self.options()
        unknown = sorted(texts.keys() - known.keys())
        if unknown:
            raise OptionError(
                f"pass {self.name} has no option {unknown[0]!r}",
                hint=f"it has: {', '.join(known) or 'none'}",
            )
        values = {name: _parse(self.name, name, t, known[name]) for name, t in texts.items()}
        return replace(self, **values) if values else self  # type: ignore[type-var]


_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _parse(owner: str, name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return _TRUTHS[text.lower()]
        return type(default)(text)
    except (KeyError, ValueError) as e:
        raise OptionError(
            f"option {name} of pass {owner} cannot be {text!r}",
            why=f"it must be of type {type(default).__name__}, such as {default!r}",
        ) from e
