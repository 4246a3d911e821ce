"""A decoded message: values by field name, read through accessors typed by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.errors import ProtoError
from xladev.hlo.proto.schema import ENUM_TYPES, Descriptor


class Message:
    """Values of one message by field name, and where it began.

    Every accessor gives the default of proto3 (zero, empty, None) for a field that is not set, and
    raises KeyError for a name that the message does not declare.
    """

    __slots__ = ("descriptor", "start", "values")

    def __init__(self, descriptor: Descriptor, start: int = 0) -> None:
        self.descriptor = descriptor
        self.start = start
        self.values: dict[str, Any] = {}

    @property
    def place(self) -> str:
        """Where the message begins, for errors."""
        return f"byte {self.start}, in {self.descriptor.name}"

    def error(self, what: str, why: str | None = None) -> ProtoError:
        """An error at this message."""
        return ProtoError(what, where=self.place, why=why)

    def has(self, name: str) -> bool:
        """True if the field was on the wire."""
        return name in self.values

    def _get(self, name: str, default: Any) -> Any:
        found = self.values.get(name)
        if found is None:
            self.descriptor.fields[name]
            return default
        return found

    def integer(self, name: str) -> int:
        """Value of an integer field, or the number of an enum field."""
        return self._get(name, 0)

    def real(self, name: str) -> float:
        """Value of a float or double field; a NaN, which HLO text has no word for, is refused."""
        value: float = self._get(name, 0.0)
        if value != value:
            raise self.error(f"{name} is NaN", why="attributes are numbers")
        return value

    def flag(self, name: str) -> bool:
        """Value of a bool field."""
        return self._get(name, False)

    def text(self, name: str) -> str:
        """Value of a string field."""
        return self._get(name, "")

    def data(self, name: str) -> bytes:
        """Value of a bytes field, or bytes of a lazy message."""
        return self._get(name, b"")

    def raw(self, name: str) -> bytes | memoryview:
        """Bytes of a raw field, whichever way the writer had split it; many are a view."""
        found = self._get(name, ())
        if isinstance(found, (bytes, memoryview)):
            return found
        whole: bytes | memoryview = found[0] if len(found) == 1 else b"".join(found)
        return whole

    def integers(self, name: str) -> tuple[int, ...]:
        """Values of a list of integers or bools."""
        return tuple(self._get(name, ()))

    def texts(self, name: str) -> tuple[str, ...]:
        """Values of a list of strings."""
        return tuple(self._get(name, ()))

    def blobs(self, name: str) -> tuple[bytes, ...]:
        """Values of a list of bytes."""
        return tuple(self._get(name, ()))

    def child(self, name: str) -> Message | None:
        """Value of a message field, if set."""
        return self._get(name, None)

    def children(self, name: str) -> Sequence[Message]:
        """Values of a list of messages."""
        return self._get(name, ())

    def enum(self, name: str) -> str:
        """Name of an enum field's value, as the .proto file has it.

        Raises:
            ProtoError: a number that the enum does not have.
        """
        return self._enum_name(name, self._get(name, 0))

    def enums(self, name: str) -> tuple[str, ...]:
        """Names of the values of a list of enums; a ProtoError as for ``enum``."""
        return tuple(self._enum_name(name, number) for number in self._get(name, ()))

    def mapping(self, name: str) -> dict[str, str]:
        """Value of a map from strings to strings; of equal keys the last one counts."""
        return {entry.text("key"): entry.text("value") for entry in self.children(name)}

    def _enum_name(self, name: str, number: int) -> str:
        enum = ENUM_TYPES[self.descriptor.fields[name].type_name]
        found = enum.names.get(number)
        if found is None:
            raise ProtoError(
                f"{enum.name} has no value {number}",
                where=f"{self.place}.{name}",
                hint=f"known values: {', '.join(enum.numbers)}",
            )
        return found
