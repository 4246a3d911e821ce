"""Runs a module with the evaluator on flat arrays, in the order of a signature's buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from xladev.compiler.signature import Signature
from xladev.hlo.bounded import Bounded
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.hlo.nested_values import flattened, nested
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
    readable = [_read_only(array) for array in arrays]
    values = _with_sizes(readable, signature.parameter_leaves)
    arguments = [nested(shape, lambda _: next(values)) for shape in signature.parameters]
    value = evaluator.run(module, *arguments)
    return _flat(value, signature)


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


def _with_sizes(arrays: Sequence[HostArray | None], shapes: Sequence[Shape]) -> Iterator[Value]:
    """One value per shape; those of dynamic shape with their sizes, which follow the arrays."""
    sizes = iter(arrays[len(shapes) :])
    for array, shape in zip(arrays, shapes, strict=False):
        if array is None or not shape.is_dynamic:
            yield array
        else:
            live = (int(size) for size in islice(sizes, sum(shape.dynamic)) if size is not None)
            yield Bounded(array, tuple(live))


def _flat(value: Value, signature: Signature) -> list[HostArray | None]:
    """The arrays of a result, then the sizes of those of dynamic shape."""
    arrays: list[HostArray | None] = []
    sizes: list[HostArray | None] = []
    for part, shape in zip(flattened(value), signature.result_leaves, strict=True):
        if isinstance(part, Bounded):
            sizes.extend(np.asarray(size, np.int32) for size in part.sizes)
            arrays.append(part.array)
        else:
            arrays.append(np.asarray(part) if shape.is_array else None)
    return arrays + sizes
