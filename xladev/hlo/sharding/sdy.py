"""Shardy's texts (``#sdy.sharding<@mesh, [{"x"}, {?}]>``): read and written.

Source: the attributes TensorShardingAttr and DimensionShardingAttr of Shardy's
`shardy/dialect/sdy/ir/attrs.td`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from xladev.errors import ParseError
from xladev.hlo.attributes import AxisRef
from xladev.hlo.devices import MeshAxes
from xladev.hlo.sharding.grid import axis_text

_T = TypeVar("_T")
_TOKEN = re.compile(
    r'\s*(?:(?P<axis>"[^"]*"(?::\(\d+\)\d+)?)|(?P<word>[@\w.$#-]+)|(?P<sign>[][{}<>,=?()]))'
)
_REF = re.compile(r'"([^"]*)"(?::\((\d+)\)(\d+))?')
_PRIORITY = re.compile(r"p\d+")


@dataclass(frozen=True, slots=True)
class SdyDimension:
    """One dimension of a sharding.

    Attributes:
        axes: that cut it, outermost first.
        is_open: True if propagation may cut it further.
        priority: the round of propagation from which it counts; 0 is the first.
    """

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False
    priority: int = 0

    def __str__(self) -> str:
        parts = [*map(axis_text, self.axes), *(["?"] if self.is_open else [])]
        return f"{{{', '.join(parts)}}}" + (f"p{self.priority}" if self.priority else "")


@dataclass(frozen=True, slots=True)
class SdySharding:
    """The sharding of one array.

    Attributes:
        mesh: name of a mesh of the module, or a mesh of its own.
        dims: one for each dimension.
        replicated: axes that must not cut it.
        unreduced: axes along which parts of a sum lie.
    """

    mesh: str | MeshAxes
    dims: tuple[SdyDimension, ...]
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()

    def __str__(self) -> str:
        mesh = f"@{self.mesh}" if isinstance(self.mesh, str) else mesh_text(self.mesh)
        text = f"{mesh}, [{', '.join(map(str, self.dims))}]"
        for name, axes in (("replicated", self.replicated), ("unreduced", self.unreduced)):
            text += f", {name}={{{', '.join(map(axis_text, axes))}}}" if axes else ""
        return f"<{text}>"

    def mesh_in(self, meshes: Mapping[str, MeshAxes]) -> MeshAxes | None:
        """Its mesh; None if the module has none of that name."""
        return meshes.get(self.mesh) if isinstance(self.mesh, str) else self.mesh


def mesh_text(mesh: MeshAxes) -> str:
    """A mesh as Shardy spells it."""
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    ids = f", device_ids=[{', '.join(map(str, mesh.device_ids))}]" if mesh.device_ids else ""
    return f"mesh<[{axes}]{ids}>"


def sharding_attribute(sharding: SdySharding) -> str:
    """The text of the frontend attribute ``xla.sdy.sharding``."""
    return f"#sdy.sharding{sharding}"


def read_shardings(text: str) -> tuple[SdySharding, ...]:
    """The shardings in ``#sdy.sharding<...>`` or ``#sdy.sharding_per_value<[...]>``.

    Raises:
        ParseError: the text is neither.
    """
    return tuple(_Reader(text).shardings())


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text.replace('\\"', '"')))
        self._at = 0

    def shardings(self) -> Iterator[SdySharding]:
        word = self._take()
        if word == "#sdy.sharding":
            yield self._sharding()
        elif word == "#sdy.sharding_per_value":
            self._expect("<", "[")
            yield from self._listed("]", self._sharding)
            self._expect(">")
        else:
            raise self._error(word)
        if self._at != len(self._tokens):
            raise self._error(self._peek())

    def _sharding(self) -> SdySharding:
        self._expect("<")
        mesh = self._mesh()
        self._expect(",", "[")
        dims = tuple(self._listed("]", self._dimension))
        axes: dict[str, tuple[AxisRef, ...]] = {"replicated": (), "unreduced": ()}
        while self._peek() == ",":
            self._take()
            name = self._take()
            if name not in axes:
                raise self._error(name)
            self._expect("=", "{")
            axes[name] = tuple(self._listed("}", self._axis))
        self._expect(">")
        return SdySharding(mesh, dims, axes["replicated"], axes["unreduced"])

    def _mesh(self) -> str | MeshAxes:
        word = self._take()
        if word.startswith("@"):
            return word[1:]
        if word != "mesh":
            raise self._error(word)
        self._expect("<", "[")
        axes = tuple(self._listed("]", self._mesh_axis))
        ids: tuple[int, ...] = ()
        if self._peek() == ",":
            self._expect(",", "device_ids", "=", "[")
            ids = tuple(self._listed("]", self._number))
        self._expect(">")
        return MeshAxes(axes, ids)

    def _mesh_axis(self) -> tuple[str, int]:
        name = self._axis().name
        self._expect("=")
        return name, self._number()

    def _number(self) -> int:
        word = self._take()
        if not word.isdigit():
            raise self._error(word)
        return int(word)

    def _dimension(self) -> SdyDimension:
        self._expect("{")
        parts = list(self._listed("}", self._take))
        axes = tuple(self._as_axis(p) for p in parts if p != "?")
        priority = int(self._take()[1:]) if _PRIORITY.fullmatch(self._peek()) else 0
        return SdyDimension(axes, "?" in parts, priority)

    def _axis(self) -> AxisRef:
        return self._as_axis(self._take())

    def _as_axis(self, token: str) -> AxisRef:
        found = _REF.fullmatch(token)
        if not found:
            raise self._error(token)
        name, pre, size = found.groups()
        return AxisRef(name, int(pre), int(size)) if size else AxisRef(name)

    def _listed(self, end: str, item: Callable[[], _T]) -> Iterator[_T]:
        while self._peek() != end:
            yield item()
            if self._peek() == ",":
                self._take()
        self._take()

    def _expect(self, *words: str) -> None:
        for word in words:
            found = self._take()
            if found != word:
                raise self._error(found)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        word = self._peek()
        if not word:
            raise self._error("the end")
        self._at += 1
        return word

    def _error(self, found: str) -> ParseError:
        return ParseError(
            f"a sharding of Shardy does not read on at {found!r}",
            where=self._text,
            why="it is #sdy.sharding<@mesh, [{...}, ...]> or #sdy.sharding_per_value<[...]>",
        )


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            yield text[at]
            at += 1
            continue
        yield found[found.lastgroup or 0]
        at = found.end()
