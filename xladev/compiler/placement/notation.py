"""Placed graphs as text, one node a line: `n121 = Identity[T=f32, device=npu:0](n98) @ n119`.

    LINE    = NAME " = " OP [ "[" ATTR { ", " ATTR } "]" ] "(" [ INPUT { ", " INPUT } ] ")"
              [ " @ " NAME { ", " NAME } ]
    ATTR    = KEY "=" VALUE
    INPUT   = NAME [ ":" PART { "." PART } ]
    VALUE   = WORD | JSON string

In brackets are attributes, in parentheses inputs, behind the at sign nodes that run before. A value
that is no plain word is a JSON string. An input with parts is one result of several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from xladev.errors import ParseError

Pairs = tuple[tuple[str, str], ...]

_WORD = re.compile(r"[\w.:<>/+-]+")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_INPUT = re.compile(r"[A-Za-z_][\w.-]*(?::\d+(?:\.\d+)*)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """One node.

    Attributes:
        name: unique in its graph, a word that begins with a letter.
        op: what it does; a word.
        attributes: keys, which are words, and values, which are any text.
        inputs: names of nodes, with ``:N`` for one of several results.
        controls: names of nodes that run before it and give it nothing.
    """

    name: str
    op: str
    attributes: Pairs = ()
    inputs: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()

    def __str__(self) -> str:
        attributes = ", ".join(f"{key}={_value(value)}" for key, value in self.attributes)
        shown = f"[{attributes}]" if attributes else ""
        after = f" @ {', '.join(self.controls)}" if self.controls else ""
        return f"{self.name} = {self.op}{shown}({', '.join(self.inputs)}){after}"


def print_placed(nodes: Iterable[PlacedNode]) -> str:
    """The text of a graph."""
    return "".join(f"{node}\n" for node in nodes)


def parse_placed(text: str) -> tuple[PlacedNode, ...]:
    """The graph that a text is of; empty lines and lines that begin with ``#`` say nothing.

    Raises:
        ParseError: with the number of the line.
    """
    nodes: list[PlacedNode] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            nodes.append(_Line(line, number).node())
    return tuple(nodes)


def _value(value: str) -> str:
    return value if _WORD.fullmatch(value) else json.dumps(value)


class _Line:
    """Reads one line from its left to its right."""

    def __init__(self, text: str, number: int) -> None:
        self._text, self._number, self._at = text, number, 0

    def node(self) -> PlacedNode:
        """The node of the line."""
        name = self._word(_NAME, "the name of a node")
        self._expect(" = ")
        op = self._word(_NAME, "an operation")
        attributes: list[tuple[str, str]] = []
        if self._took("["):
            attributes = [self._attribute()]
            while self._took(", "):
                attributes.append(self._attribute())
            self._expect("]")
        self._expect("(")
        inputs = [] if self._text.startswith(")", self._at) else self._words(_INPUT, "an input")
        self._expect(")")
        controls = self._words(_NAME, "the name of a node") if self._took(" @ ") else []
        if self._at < len(self._text):
            raise self._error("the end of the line")
        return PlacedNode(name, op, tuple(attributes), tuple(inputs), tuple(controls))

    def _attribute(self) -> tuple[str, str]:
        key = self._word(_NAME, "the name of an attribute")
        self._expect("=")
        if self._text.startswith('"', self._at):
            quoted = self._word(_STRING, "a string")
            try:
                return key, str(json.loads(quoted))
            except ValueError:
                raise self._error("a JSON string") from None
        return key, self._word(_WORD, "a value")

    def _words(self, pattern: re.Pattern[str], what: str) -> list[str]:
        found = [self._word(pattern, what)]
        while self._took(", "):
            found.append(self._word(pattern, what))
        return found

    def _word(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise self._error(what)
        self._at = match.end()
        return match.group()

    def _took(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise self._error(repr(text))

    def _error(self, wanted: str) -> ParseError:
        return ParseError(
            f"{wanted} is missing in a placed graph",
            where=f"line {self._number}, column {self._at + 1}: {self._text}",
            why="a line is NAME = OP[KEY=VALUE, ...](INPUT, ...) @ NAME, ...",
        )
