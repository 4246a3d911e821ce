"""The private names of jax by which Python takes part in partitioning; see `adapter`.

`custom_partitioning` divides a call by functions of the user, and `debug.inspect_array_sharding`
tells one how a value is cut.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from xladev.errors import CompileError
from xladev.frontends.jax import adapter
from xladev.hlo.attributes import Sharding
from xladev.hlo.builder import HloBuilder
from xladev.hlo.custom_calls.definition import CustomCall, DividedCall
from xladev.hlo.custom_calls.registry import known, register
from xladev.hlo.ir import HloInstruction
from xladev.hlo.proto import read_module
from xladev.hlo.proto.shardings import sharding_from, write_sharding
from xladev.hlo.shape import Shape, array

CUSTOM, INSPECT = "CustomSPMDPartitioning", "InspectSharding"
"""Targets of such calls. Source: jax._src.custom_partitioning and jax._src.debugging."""


def register_targets() -> None:
    """Lets the partitioner ask and tell functions of users."""
    calls = (
        CustomCall(CUSTOM, "A function of JAX that says how it is divided.", divide=divide),
        CustomCall(INSPECT, "Tells a Python function how a value is cut.", divide=tell),
    )
    for call in calls:
        if known(call.target) is None:
            register(call)


def divide(
    i: HloInstruction, operands: tuple[Sharding, ...], results: tuple[Sharding, ...]
) -> DividedCall:
    """Asks the user's ``partition``, by way of JAX.

    Args:
        i: the call; its configuration names the functions that JAX keeps for it.
        operands: how the operands are cut.
        results: how the results are wanted.

    Raises:
        CompileError: JAX has forgotten the functions: the program is another process's.
    """
    from jax._src import custom_partitioning

    key = i.note.backend_config.encode()
    if key not in custom_partitioning._sharding_callbacks:
        raise CompileError(
            f"{i.name} is divided by functions that are not in this process",
            why="custom_partitioning hands over Python functions, which no saved program has",
            hint="lower the program in the process that compiles it",
        )
    code, cut, given = custom_partitioning._custom_partitioning_partition(
        [_jax_shape(o.shape) for o in i.operands],
        list(map(_jax_sharding, operands)),
        _jax_shape(i.shape),
        _packed(i.shape, [_jax_sharding(s) for s in results]),
        key,
    )
    made = given.tuple_elements() if i.shape.is_tuple else [given]
    entry = read_module(adapter.hlo_proto(code)).entry
    return DividedCall(entry, tuple(map(_sharding, cut)), tuple(map(_sharding, made)))


def tell(
    i: HloInstruction, operands: tuple[Sharding, ...], results: tuple[Sharding, ...]
) -> DividedCall:
    """Tells the function of an `inspect_array_sharding` how its value is cut.

    Args:
        i: the call; its configuration is the address of a function of jaxlib's, which does this for
            XLA, and that of the user's function.
        operands: how the value is cut.
        results: ignored: the call gives the value as it is.

    Raises:
        CompileError: the function is another process's.
    """
    (value,), (cut,) = i.operands, operands
    given = _jax_sharding(cut)
    _inspector(i)(given)
    b = HloBuilder("same")
    part = array(value.shape.element_type, given.tile(_jax_shape(value.shape)).dimensions())
    b.parameter(part)
    return DividedCall(b.build(), operands, operands)


def _inspector(i: HloInstruction) -> Callable[[Any], object]:
    """The user's function, which JAX keeps while it compiles.

    Source: `encode_inspect_sharding_callback` of jaxlib, and what it packs.
    """
    from jax._src.lib import xla_client

    config = i.note.backend_config.encode("utf-8", "surrogateescape")
    ours = xla_client.encode_inspect_sharding_callback(print)
    if len(config) != len(ours) or config[:8] != ours[:8]:
        raise CompileError(
            f"{i.name} tells a function that is not in this process",
            why="inspect_array_sharding hands over a Python function, which no saved program has",
            hint="lower the program in the process that compiles it",
        )
    address = int.from_bytes(config[8:16], sys.byteorder)
    found: Callable[[Any], object] = ctypes.cast(address, ctypes.py_object).value
    return found


def _jax_shape(shape: Shape) -> Any:
    from jax._src.lib import xla_client

    if shape.is_tuple:
        return xla_client.Shape.tuple_shape([_jax_shape(part) for part in shape.tuple_shapes])
    return xla_client.Shape.array_shape(shape.element_type.np, shape.dims)


def _jax_sharding(sharding: Sharding) -> Any:
    from jax._src.lib import xla_client

    message = xla_client.OpSharding()
    message.ParseFromString(write_sharding(sharding))
    return xla_client.HloSharding.from_proto(message)


def _packed(shape: Shape, shardings: list[Any]) -> Any:
    from jax._src.lib import xla_client

    if not shape.is_tuple:
        return shardings[0]
    return xla_client.HloSharding.tuple_sharding(_jax_shape(shape), shardings)


def _sharding(sharding: Any) -> Sharding:
    return sharding_from(sharding.to_proto().SerializeToString())
