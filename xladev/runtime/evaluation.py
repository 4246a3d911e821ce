"""Runs a module with the evaluator on the bytes of its argument and result buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xladev.compiler.signature import Signature
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.hlo.physical import pack, unpack
from xladev.hlo.shape import Shape
from xladev.runtime.memory import HostBytes


def evaluate(
    evaluator: HloEvaluator,
    module: HloModule,
    signature: Signature,
    arguments: Sequence[HostBytes],
    results: Sequence[HostBytes],
) -> None:
    """Evaluates ``module`` and fills ``results``.

    Args:
        evaluator: knows the replica and partition it stands for.
        module: what to run.
        signature: the shapes of the buffers.
        arguments: one per `Signature.argument_shapes`; only read.
        results: one per `Signature.result_shapes`.

    Raises:
        EvaluationError: an instruction has no value.
    """
    arrays = map(_read, arguments, signature.argument_shapes)
    values = _grouped(signature.parameters, arrays)
    value = evaluator.run(module, *values)
    leaves = _leaves(value, signature.result)
    for result, shape, leaf in zip(results, signature.result_shapes, leaves, strict=True):
        if shape.is_array and result.nbytes:
            np.copyto(result, pack(np.asarray(leaf), shape))


def _read(data: HostBytes, shape: Shape) -> Value:
    if not shape.is_array:
        return None
    array = unpack(data, shape)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _grouped(shapes: Sequence[Shape], leaves: Iterator[Value]) -> list[Value]:
    """One value per shape, tuples nested as the shapes say."""
    return [
        tuple(_grouped(shape.tuple_shapes, leaves)) if shape.is_tuple else next(leaves)
        for shape in shapes
    ]


def _leaves(value: Value, shape: Shape) -> Iterator[Value]:
    if not shape.is_tuple:
        yield value
        return
    for part, part_shape in zip(value, shape.tuple_shapes, strict=True):
        yield from _leaves(part, part_shape)
