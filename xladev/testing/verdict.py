"""What is wrong with one program on one platform, as plain data that crosses processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xladev.compiler.options import CompileOptions
from xladev.errors import XladevError
from xladev.hlo.ir import DEFAULT_HEADER, HloModule
from xladev.hlo.literal import Array, Value
from xladev.testing.arrays import nested
from xladev.testing.differential import Finding, compare_results, run_on_platform
from xladev.testing.noise import evaluated, leaves
from xladev.testing.wire import pack, unpack, unpack_module

DEFINITION = "interpreter"
"""The platform that is the evaluator, which runs in the child itself."""

Case = tuple[HloModule, tuple[Value, ...]]
"""A program and one value per parameter."""

OK = "ok"
UNKNOWN = "evaluator"
"""Kind of a program whose right results are not known, since the reference cannot run it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a program.

    Attributes:
        kind: ``ok``, ``error``, ``number``, ``type``, ``value``, ``crash``, ``timeout``, or
            ``evaluator`` if the reference itself cannot run it.
        detail: what exactly.
        code: of the error that was raised, if one was.
    """

    kind: str = OK
    detail: str = ""
    code: str = ""

    @property
    def is_wrong(self) -> bool:
        """True if the platform is at fault."""
        return self.kind not in (OK, UNKNOWN)

    def resembles(self, other: Verdict) -> bool:
        """True if both are the same kind of failure."""
        return (self.kind, self.code) == (other.kind, other.code)

    def to_json(self) -> dict[str, str]:
        """Kind, and what there is of the rest."""
        data = {"kind": self.kind, "detail": self.detail, "code": self.code}
        return {key: value for key, value in data.items() if value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_json` wrote."""
        return Verdict(data["kind"], data.get("detail", ""), data.get("code", ""))


def verdict_on(
    module: HloModule,
    arguments: Sequence[Value],
    platform: str,
    against: str,
    options: CompileOptions,
) -> tuple[Verdict, list[Array]]:
    """What is wrong with a program on a platform, and the right results.

    Args:
        module: the program.
        arguments: one value per parameter, given to each device.
        platform: what is judged.
        against: the platform whose results are right; the interpreter's come with how far
            rounding may move each of them.
        options: that it is compiled with.
    """
    try:
        wanted = evaluated(module, arguments)
        if against != DEFINITION:
            wanted = run_on_platform(module, arguments, against)
    except XladevError as error:
        return Verdict(UNKNOWN, str(error), error.code), []
    try:
        found = run_on_platform(module, arguments, platform, options)
    except XladevError as error:
        return Verdict("error", str(Finding("error", str(error))), error.code), wanted
    finding = compare_results(module, arguments, found, wanted)
    return (Verdict() if finding is None else Verdict(finding.kind, str(finding))), wanted


def pack_case(head: dict[str, Any], module: HloModule, arguments: Sequence[Value]) -> bytes:
    """A message about one case, with plain data beside it."""
    # a serialized module does not say how many devices run it
    header = module.header
    head = {**head, "replicas": header.replica_count, "partitions": header.num_partitions}
    return pack(head, flat_arrays(arguments), module)


def unpack_case(head: Mapping[str, Any], arrays: Sequence[Array], proto: bytes) -> Case:
    """The case of a message, taken apart by `unpack`."""
    module = unpack_module(proto)
    header = replace(
        DEFAULT_HEADER,
        replica_count=head["replicas"],
        num_partitions=head["partitions"],
        frontend_attributes=module.header.frontend_attributes,  # the meshes of manual regions
    )
    module = replace(module, header=header)
    given = iter(arrays)
    return module, tuple(nested(p.shape, given) for p in module.entry.parameters)


def judge(message: bytes) -> bytes:
    """A child's function: judges the case of a message from `pack_case`.

    The head names platform, against and options.
    """
    head, arrays, proto = unpack(message)
    options = CompileOptions.from_json(head["options"])
    case = unpack_case(head, arrays, proto)
    verdict, _ = verdict_on(*case, head["platform"], head["against"], options)
    return pack(verdict.to_json())


def flat_arrays(values: Sequence[Value]) -> list[Any]:
    """The arrays of values, in order."""
    return [np.asarray(leaf) for value in values for leaf in leaves(value)]
