"""Writes the files of a model: ``python -m benchmarks.models.convert NAME BATCH FOLDER``.

They are ``model.pb``, HLO whose first parameters are the weights; ``constants.pb``, HLO with the
weights as constants; ``arguments.npz`` and ``inputs.npz``, arguments of both; ``model.onnx`` where
ONNX has the types; and of a step of decoding ``facts.json``. Of a step of training, ``model.pb``
and the arguments alone. Needs torch with what the model is written with, and onnxscript.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.cpu.wire import Array, save_arrays
from benchmarks.models.model_rows import DONE, FACTS
from benchmarks.models.narrow_layers import NarrowLinear, read_nbytes
from benchmarks.models.networks import NETWORKS, Tensors, make
from benchmarks.models.training_hlo import training_module
from xladev.frontends.torch.export import exported_module, exported_weights
from xladev.hlo.proto import write_module


def main(arguments: Sequence[str]) -> None:
    """Writes them."""
    name, batch, folder = arguments[0], int(arguments[1]), Path(arguments[2])
    folder.mkdir(parents=True, exist_ok=True)
    module, inputs = make(name, batch)
    if NETWORKS[name].is_training:
        _write_training(module, inputs, folder)
    else:
        _write_inference(module, inputs, folder, name)
    (folder / DONE).touch()


def _write_training(module: torch.nn.Module, inputs: Tensors, folder: Path) -> None:
    hlo, held = training_module(module, inputs)
    (folder / "model.pb").write_bytes(write_module(hlo))
    _write_arguments(held, inputs, folder)


def _write_inference(module: torch.nn.Module, inputs: Tensors, folder: Path, name: str) -> None:
    with torch.no_grad():
        program = torch.export.export(module, inputs, strict=False)
    _write_arguments([*exported_weights(program).values()], inputs, folder)
    for file, kind in (("model.pb", "parameters"), ("constants.pb", "constants")):
        (folder / file).write_bytes(write_module(exported_module(program, weights=kind)))
    if NETWORKS[name].is_decoding:
        (folder / FACTS).write_text(json.dumps({"read_nbytes": read_nbytes(module)}))
    if all(each.dtype != torch.bfloat16 for each in module.parameters()):
        _write_onnx(module, inputs, folder / "model.onnx", name)


def _write_arguments(weights: Sequence[torch.Tensor], inputs: Tensors, folder: Path) -> None:
    given = [array(each) for each in inputs]
    save_arrays(folder / "arguments.npz", [*map(array, weights), *given])
    save_arrays(folder / "inputs.npz", given)


def _write_onnx(module: torch.nn.Module, inputs: Tensors, path: Path, name: str) -> None:
    is_script = NETWORKS[name].is_exported_by_torchscript
    for layer in module.modules():
        if isinstance(layer, NarrowLinear):
            layer.prepare_for_onnx()
    torch.onnx.export(module, inputs, str(path), dynamo=not is_script)


def array(tensor: torch.Tensor) -> Array:
    """A tensor as an array; bf16 as ml_dtypes' type."""
    held = tensor.detach().contiguous()
    if held.dtype == torch.bfloat16:
        import ml_dtypes

        return held.view(torch.int16).numpy().view(np.dtype(ml_dtypes.bfloat16))
    made: Array = held.numpy()
    return made


if __name__ == "__main__":
    main(sys.argv[1:])
