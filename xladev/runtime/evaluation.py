"""Runs a module with the evaluator on flat arrays, in the order of a signature's buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xladev.compiler.signature import Signature
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.hlo.physical import HostArray, pack, unpack
from xladev.hlo.shape import Shape
from xladev.runtime.memory import HostBytes


def evaluate(
    evaluator: HloEvaluator,
    module: HloModule,
    signature: Signature,
    arrays: Sequence[HostArray | None],
) -> list[HostArray | None]:
    """One array for each of `Signature.result_shapes`; None for tokens.

    Args:
        evaluator: knows the replica and partition it stands for.
        module: what to run.
        signature: the shapes of the buffers.
        arrays: one for each of `Signature.argument_shapes`; only read.

    Raises:
        EvaluationError: an instruction has no value.
    """
    values = _grouped(signature.parameters, map(_read_only, arrays))
    value = evaluator.run(module, *values)
    return list(_leaves(value, signature.result))


def evaluate_bytes(
    evaluator: HloEvaluator,
    module: HloModule,
    signature: Signature,
    arguments: Sequence[HostBytes],
    results: Sequence[HostBytes],
) -> None:
    """As `evaluate`, but reads and fills the bytes of buffers."""
    arrays = map(_unpack, arguments, signature.argument_shapes)
    values = evaluate(evaluator, module, signature, list(arrays))
    for result, shape, value in zip(results, signature.result_shapes, values, strict=True):
        if value is not None and value.nbytes:
            np.copyto(result, pack(value, shape))


def _unpack(data: HostBytes, shape: Shape) -> HostArray | None:
    return unpack(data, shape) if shape.is_array else None


def _read_only(array: HostArray | None) -> HostArray | None:
    if array is not None and array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _grouped(shapes: Sequence[Shape], leaves: Iterator[Value]) -> list[Value]:
    """One value per shape, tuples nested as the shapes say."""
    return [
        tuple(_grouped(shape.tuple_shapes, leaves)) if shape.is_tuple else next(leaves)
        for shape in shapes
    ]


def _leaves(value: Value, shape: Shape) -> Iterator[HostArray | None]:
    if shape.is_tuple:
        for part, part_shape in zip(value, shape.tuple_shapes, strict=True):
            yield from _leaves(part, part_shape)
    else:
        yield np.asarray(value) if shape.is_array else None
