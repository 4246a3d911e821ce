"""The private names of jax that its callbacks take; see `adapter`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import Any

from xladev.errors import UserFunctionError
from xladev.frontends.jax.callbacks import NUMBER, TARGET, Callback


def add_callbacks(platforms: Collection[str]) -> None:
    """Makes pure_callback, io_callback, debug.callback and debug.print work on JAX platforms."""
    from jax._src import callback as jax_callback
    from jax.interpreters import mlir

    own = jax_callback.emit_python_callback

    def emit(ctx: Any, callback: Any, token: Any, operands: Any, *rest: Any, **named: Any) -> Any:
        if not set(ctx.module_context.platforms) & set(platforms):
            return own(ctx, callback, token, operands, *rest, **named)
        return _emit_callback(ctx, callback, token, list(operands), *rest, **named)

    jax_callback.emit_python_callback = mlir.emit_python_callback = emit


def _emit_callback(
    ctx: Any,
    callback: Any,
    token: Any,
    operands: list[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    **_: Any,
) -> tuple[Any, Any, Any]:
    """Emits a call of `callbacks.TARGET`; takes and gives what JAX's own function does."""
    import jax
    import numpy as np
    from jax._src import core

    line = _users_line(ctx.traceback)
    checked = _checked(callback, result_avals, line)
    held = Callback(checked, passes_token=token is not None, called_at=line)
    ctx.module_context.add_keepalive(held)
    if token is not None:
        operands = [token, *operands]
        ctx = ctx.replace(
            avals_in=[core.abstract_token, *ctx.avals_in],
            avals_out=[core.abstract_token, *ctx.avals_out],
        )
    lower = jax.ffi.ffi_lowering(TARGET, has_side_effect=has_side_effect)
    results = list(lower(ctx, *operands, **{NUMBER: np.uint64(held.number)}))
    return (results, None, held) if token is None else (results[1:], results[0], held)


def _users_line(traceback: Any) -> str:
    """``file:line`` of the innermost call that is not JAX's own; empty if there is none."""
    from jax._src import source_info_util

    frame = source_info_util.user_frame(traceback)
    return f"{frame.file_name}:{frame.start_line}" if frame else ""


def _checked(
    callback: Any, result_avals: Sequence[Any], called_at: str
) -> Callable[..., Sequence[Any]]:
    """The callback, with results as arrays of the shapes and dtypes that the program expects."""
    import numpy as np
    from jax._src import dtypes

    canonical = getattr(dtypes, "canonicalize_value", lambda value: value)

    def call(*arguments: Any) -> Sequence[Any]:
        values = callback(*arguments)
        misfit = _misfit_of_counts(values, result_avals)
        arrays = () if misfit else tuple(canonical(np.asarray(value)) for value in values)
        misfit = misfit or next(filter(None, map(_misfit, arrays, result_avals, count())), "")
        if not misfit:
            return arrays
        raise UserFunctionError(
            f"the Python callback gave what the program does not expect: {misfit}",
            where=f"called at {called_at}" if called_at else None,
            why="shapes and dtypes of its results were declared where it is called",
        )

    return call


def _misfit_of_counts(values: Sequence[Any], avals: Sequence[Any]) -> str:
    """What is wrong with the number of results, in JAX's words; empty if nothing."""
    if len(values) == len(avals):
        return ""
    return (
        f"Mismatched number of outputs from callback. Expected: {len(avals)}, Actual: {len(values)}"
    )


def _misfit(array: Any, aval: Any, number: int) -> str:
    """What is wrong with one result, in JAX's words; empty if nothing."""
    for what in ("shape", "dtype"):
        wanted, actual = getattr(aval, what), getattr(array, what)
        if wanted != actual:
            return (
                f"Incorrect output {what} for return value #{number}: "
                f"Expected: {wanted}, Actual: {actual}"
            )
    return ""
