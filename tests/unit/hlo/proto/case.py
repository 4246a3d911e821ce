"""A module whose root is one instruction: its text, and what its proto must be read as."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xladev.hlo.attributes import Sharding
from xladev.hlo.shape import Shape

F = "f32[4,8]{1,0}"

ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}"""
ONE = """one {
  a = f32[4,8] parameter(0)
  ROOT n = f32[4,8] negate(a)
}"""
SELF = "{name} {{ ROOT a = {shape} parameter(0) }}"


@dataclass(frozen=True)
class Case:
    """A module whose root is one instruction.

    Attributes:
        name: identifies it.
        parameters: shapes of p0, p1, ...
        root: text of the root, from its shape on.
        attrs: the root's attributes that differ from their defaults; computations by name.
        computations: text of those that the root calls.
        before: text of instructions between the parameters and the root.
        sharding: the root's sharding.
        shape: the root's shape, layout included, where the case is about that.
    """

    name: str
    parameters: tuple[str, ...]
    root: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    computations: str = ""
    before: str = ""
    sharding: Sharding | None = None
    shape: Shape | None = None

    @property
    def text(self) -> str:
        """The module's text."""
        lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(self.parameters)]
        body = "\n".join([*lines, self.before, f"  ROOT root = {self.root}"])
        return f"HloModule m\n\n{self.computations}\n\nENTRY main {{\n{body}\n}}\n"
