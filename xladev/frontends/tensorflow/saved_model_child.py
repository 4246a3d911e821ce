"""A process that turns a signature of a SavedModel into HLO, in a Python that has TensorFlow.

    python saved_model_child.py MODEL SIGNATURE OUT SHAPES

It needs nothing of xladev, so that the Python may be another one. OUT is a folder: ``program.pb``
gets a serialized HloModuleProto, whose parameters are the signature's inputs and whose result is
the tuple of its outputs; ``interface.json`` their names. Variables become constants. SHAPES is
JSON: for some inputs their lists of sizes. An error is one line of JSON on stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

HOST = "/device:CPU:0"


def fail(what: str, why: str, hint: str) -> NoReturn:
    """Ends the process with an error for `xladev.cli.programs`."""
    sys.stderr.write("\n" + json.dumps({"what": what, "why": why, "hint": hint}) + "\n")
    sys.exit(1)


def main(model: str, signature: str, out: str, shapes: str) -> None:
    """See the module."""
    try:
        import tensorflow as tf
    except ImportError as error:
        fail(
            "TensorFlow cannot be imported",
            str(error),
            "name a Python that has it with --tensorflow-python",
        )
    with tf.device(HOST):
        loaded = tf.saved_model.load(model)  # its variables live as long as it does
        found = loaded.signatures
        if signature not in found:
            fail(f"no signature {signature!r}", f"there are {', '.join(found)}", "--signature NAME")
        try:
            _write(tf, found[signature], json.loads(shapes), Path(out))
        except (tf.errors.OpError, ValueError, TypeError) as error:
            hint = "XLA compiles no strings, tables or Python; see docs/how-to/use-tensorflow.md"
            fail("TensorFlow does not compile the signature", str(error).strip(), hint)


def _write(tf: Any, function: Any, shapes: Mapping[str, list[int]], out: Path) -> None:
    """Both files."""
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    inputs = dict(function.structured_input_signature[1])
    specs = _specs(tf, inputs, shapes)
    frozen = convert_variables_to_constants_v2(function)
    order = [_input_of(tensor.name, inputs) for tensor in frozen.inputs]
    outputs = sorted(function.structured_outputs)

    def results(*values: Any) -> Any:
        return tf.nest.flatten(frozen(*values))

    call = tf.function(results, jit_compile=True).experimental_get_compiler_ir(
        *(specs[name] for name in order)
    )
    (out / "program.pb").write_bytes(call(stage="hlo_serialized", device_name=HOST))
    told = {"inputs": order, "outputs": outputs}
    (out / "interface.json").write_text(json.dumps(told))


def _input_of(tensor: str, inputs: Mapping[str, Any]) -> str:
    """The input that a placeholder stands for: its own name, or after that of the signature."""
    name = tensor.split(":")[0]
    ends = [each for each in inputs if name == each or name.endswith(f"_{each}")]
    return max(ends, key=len) if ends else name


def _specs(tf: Any, inputs: Mapping[str, Any], shapes: Mapping[str, list[int]]) -> dict[str, Any]:
    """The inputs with all sizes known."""
    unknown = sorted(set(shapes) - set(inputs))
    if unknown:
        fail(f"no input {unknown[0]!r}", f"there are {', '.join(inputs)}", "--shape NAME=SIZES")
    found = {}
    for name, spec in inputs.items():
        shape = tf.TensorShape(shapes[name]) if name in shapes else spec.shape
        if not shape.is_compatible_with(spec.shape):
            fail(f"--shape {name}", f"{shape} does not fit {spec.shape}", "give the model's sizes")
        if not shape.is_fully_defined():
            why = f"its shape is {spec.shape}, and a program has one size for each dimension"
            fail(f"input {name!r} has open sizes", why, f"--shape {name}=SIZES, such as 1,28,28")
        found[name] = tf.TensorSpec(shape, spec.dtype, name=name)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
