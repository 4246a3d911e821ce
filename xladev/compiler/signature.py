"""What a caller of an Executable must know: shapes, layouts, aliasing, scratch, target."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xladev.compiler.json_values import DAMAGE, flag, number, shown, text
from xladev.compiler.shape_json import shape_from_json, shape_to_json
from xladev.errors import FormatError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape, array, flattened_shapes

FORMAT_VERSION = 3
"""Version of the signature and of the file around it; another one is refused."""

_SIZE = array(dt.S32)


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that is computed in place of a parameter.

    Attributes:
        result: index into `Signature.result_shapes`.
        parameter: index into `Signature.argument_shapes`.
        must: True if the program is wrong without the aliasing; else it is an offer.
    """

    result: int
    parameter: int
    must: bool = False


@dataclass(frozen=True)
class Signature:
    """The outside of an Executable.

    A launch passes flat buffers: the array leaves of all parameters in order, then one hidden s32
    for each dynamic dimension of those leaves; results likewise. Tokens have buffers of 0 bytes.

    Attributes:
        name: name of the module.
        platform: name of the platform whose compiler made it.
        target: what its code was generated for, as in `DeviceDescription.target`.
        parameters: shapes of the entry computation's parameters, with device layouts.
        result: shape of the entry computation's result, with device layouts.
        aliases: results computed in place of parameters.
        scratch_nbytes: scratch memory of one launch, in bytes.
        num_replicas: replicas that must be launched together.
        num_partitions: partitions that must be launched together.
        format_version: see FORMAT_VERSION.
    """

    name: str
    platform: str
    parameters: tuple[Shape, ...]
    result: Shape
    target: str = ""
    aliases: tuple[Alias, ...] = ()
    scratch_nbytes: int = 0
    num_replicas: int = 1
    num_partitions: int = 1
    format_version: int = field(default=FORMAT_VERSION)

    def __post_init__(self) -> None:
        arguments, results = len(self.argument_shapes), len(self.result_shapes)
        for alias in self.aliases:
            if not (0 <= alias.result < results and 0 <= alias.parameter < arguments):
                raise FormatError(
                    f"{alias} names a buffer that executable {self.name!r} does not have",
                    why=f"it has {arguments} argument and {results} result buffers",
                )
        for ends in ({a.result for a in self.aliases}, {a.parameter for a in self.aliases}):
            if len(ends) < len(self.aliases):
                raise FormatError(f"two aliases of executable {self.name!r} share a buffer")

    @cached_property
    def parameter_leaves(self) -> tuple[Shape, ...]:
        """The leaves of all parameters, in order, without hidden sizes."""
        return tuple(part for shape in self.parameters for part in flattened_shapes(shape))

    @cached_property
    def result_leaves(self) -> tuple[Shape, ...]:
        """The leaves of the result, in order, without hidden sizes."""
        return flattened_shapes(self.result)

    @cached_property
    def argument_shapes(self) -> tuple[Shape, ...]:
        """One shape per argument buffer of a launch: leaves, then hidden sizes (s32[])."""
        return self.parameter_leaves + _sizes(self.parameter_leaves)

    @cached_property
    def result_shapes(self) -> tuple[Shape, ...]:
        """One shape per result buffer of a launch: leaves, then hidden sizes (s32[])."""
        return self.result_leaves + _sizes(self.result_leaves)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the file format and for reports."""
        return {
            "name": self.name,
            "platform": self.platform,
            "target": self.target,
            "parameters": [shape_to_json(s) for s in self.parameters],
            "result": shape_to_json(self.result),
            "aliases": [[a.result, a.parameter, a.must] for a in self.aliases],
            "scratch_nbytes": self.scratch_nbytes,
            "num_replicas": self.num_replicas,
            "num_partitions": self.num_partitions,
            "format_version": self.format_version,
        }

    @staticmethod
    def from_json(data: Any) -> Signature:
        """The signature that `to_json` wrote.

        Raises:
            FormatError: fields missing, of wrong type or out of range.
        """
        try:
            return Signature(
                name=text(data["name"]),
                platform=text(data["platform"]),
                target=text(data["target"]),
                parameters=tuple(shape_from_json(s) for s in data["parameters"]),
                result=shape_from_json(data["result"]),
                aliases=tuple(Alias(number(r), number(p), flag(m)) for r, p, m in data["aliases"]),
                scratch_nbytes=number(data["scratch_nbytes"]),
                num_replicas=number(data["num_replicas"]),
                num_partitions=number(data["num_partitions"]),
                format_version=number(data["format_version"]),
            )
        except DAMAGE as e:
            raise FormatError("damaged signature of an executable", why=shown(e)) from e


def _sizes(leaves: tuple[Shape, ...]) -> tuple[Shape, ...]:
    return (_SIZE,) * sum(sum(leaf.dynamic) for leaf in leaves)
