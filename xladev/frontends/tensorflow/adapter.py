"""TensorFlow's private names, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Ask = Callable[..., bytes]
Answer = Callable[[Ask, str | None, str, Sequence[Any], Sequence[Any], str], bytes | None]


def replace_get_compiler_ir(answer: Answer) -> None:
    """Lets ``answer`` reply to what `experimental_get_compiler_ir` asks the runtime, if it can.

    Source: `Context.get_compiler_ir` of TensorFlow's module `tensorflow.python.eager.context`, 2.19
    to 2.21.
    """
    from tensorflow.python.eager.context import Context

    original = Context.get_compiler_ir

    def get_compiler_ir(
        self: Any, device_name: str | None, platform_name: str | None, function_name: str,
        flat_args: Sequence[Any], captured_inputs: Sequence[Any], stage: str = "hlo",
    ) -> bytes:  # fmt: skip
        def ask(*arguments: Any) -> bytes:
            found: bytes = original(self, *arguments)
            return found

        if platform_name is None:
            found = answer(ask, device_name, function_name, flat_args, captured_inputs, stage)
            if found is not None:
                return found
        return ask(device_name, platform_name, function_name, flat_args, captured_inputs, stage)

    Context.get_compiler_ir = get_compiler_ir


def run_operators_as_such() -> None:
    """Makes TensorFlow run operators by their kernels, not as functions of one operator each.

    Such functions run in parts, one for each device that has an argument, and all threads exchange
    arguments between parts by the same names in one table. So an operator on a device, with an
    argument in host memory, may get that of another thread's operator, or wait for ever, or fail
    with an error of another thread's: on two devices of TensorFlow's own CPU, too.

    Source: `Context.ensure_initialized` of the module `tensorflow.python.eager.context`, and
    `EagerContext::RendezvousFactory` of `core/common_runtime/eager/context.h`, 2.19 to 2.21.
    """
    from tensorflow.python import pywrap_tfe

    set_option = pywrap_tfe.TFE_ContextOptionsSetRunEagerOpAsFunction

    def never(options: Any, wanted: bool) -> None:
        set_option(options, False)

    pywrap_tfe.TFE_ContextOptionsSetRunEagerOpAsFunction = never


def forget_constants() -> None:
    """Drops the constants that TensorFlow keeps on devices, and the kernels that hold such.

    Source: `Context._clear_caches` and `Context.clear_kernel_cache` of the module
    `tensorflow.python.eager.context`, 2.19 to 2.21.
    """
    from tensorflow.python.eager import context

    context.context()._clear_caches()
    context.context().clear_kernel_cache()


def device_of_variable(value: Any) -> str:
    """The device of a variable whose handle ``value`` is; of what is none the empty text."""
    import tensorflow as tf

    is_handle = isinstance(value, tf.Tensor) and value.dtype == tf.resource
    return str(value.device) if is_handle else ""


def copied_to_host(value: Any, device: str, kept: list[Any]) -> Any:
    """A tensor, or the handle of a copied variable, on a device; what is neither stays as it is.

    Args:
        value: a tensor, a variable's handle, or anything else.
        device: where to.
        kept: gets the copied variables, whose handles are good while they live.

    Source: `_handle_data` in TensorFlow's module `tensorflow.python.ops.handle_data_util`.
    """
    import tensorflow as tf
    from tensorflow.python.ops import resource_variable_ops

    if not isinstance(value, tf.Tensor):
        return value
    with tf.device(device):
        if value.dtype != tf.resource:
            return tf.identity(value)
        held = value._handle_data.shape_and_type[0]
        read = resource_variable_ops.read_variable_op(value, tf.as_dtype(held.dtype))
        kept.append(tf.Variable(read))
        return kept[-1].handle
