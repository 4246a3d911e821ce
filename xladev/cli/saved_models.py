"""SavedModels as programs: the user's TensorFlow converts them in a child process."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xladev.aot.selection import Feed, Fetch, Selection
from xladev.cli.output import progress
from xladev.cli.programs import run_converter
from xladev.client import load
from xladev.errors import FileError, UsageError
from xladev.hlo.ir import HloModule

CHILD = Path(__file__).parents[1] / "frontends" / "tensorflow" / "saved_model_child.py"


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A signature as a program.

    Attributes:
        module: its parameters are the inputs, its result is the tuple of the outputs.
        inputs: names of the parameters, in order.
        outputs: names of the results, in order.
    """

    module: HloModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def selection(self, chosen: Selection) -> Selection:
        """What is chosen, with the signature's names in place of numbers; all, where nothing is."""
        feeds = [
            Feed(self._number(f.what, self.inputs), f.name or f.what) for f in chosen.feeds
        ] or [
            Feed(str(at), name)
            for at, name in enumerate(self.inputs)
            if not self._is_bound(name, chosen)
        ]
        fetches = [
            Fetch(self._number(f.what, self.outputs), f.name or f.what) for f in chosen.fetches
        ] or [Fetch(str(at), name) for at, name in enumerate(self.outputs)]
        bindings = tuple(
            type(b)(self._number(b.what, self.inputs), b.value) for b in chosen.bindings
        )
        return Selection(tuple(feeds), tuple(fetches), bindings)

    def _is_bound(self, name: str, chosen: Selection) -> bool:
        number = self._number(name, self.inputs)
        return any(self._number(b.what, self.inputs) == number for b in chosen.bindings)

    @staticmethod
    def _number(what: str, names: Sequence[str]) -> str:
        """The number of a name; what is no name of the signature's stays what it is."""
        return str(names.index(what)) if what in names else what


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of commands that take SavedModels."""
    parser.add_argument(
        "--saved-model", type=Path, metavar="DIR", help="a SavedModel of TensorFlow's, for a file"
    )
    parser.add_argument(
        "--signature", default="serving_default", metavar="NAME", help="which of its functions"
    )
    parser.add_argument(
        "--shape", action="append", default=[], metavar="INPUT=SIZES",
        help="sizes with commas, for an input of the SavedModel whose sizes are open",
    )  # fmt: skip
    parser.add_argument(
        "--tensorflow-python", default=sys.executable, metavar="PYTHON",
        help="the Python whose TensorFlow converts the SavedModel; default: this one",
    )  # fmt: skip


def load_saved_model(
    folder: Path, signature: str, shapes: Iterable[str], python: str
) -> SavedModel:
    """A signature of a SavedModel, with its variables as constants.

    Args:
        folder: of the SavedModel. TensorFlow reads it, which may run operators that are in it.
        signature: such as ``serving_default``.
        shapes: ``INPUT=SIZES`` for inputs whose sizes are open.
        python: an interpreter that has TensorFlow.

    Raises:
        FileError: there is no SavedModel.
        UsageError: sizes that are no numbers.
        CompileError: TensorFlow is not there, or does not compile the signature.
    """
    if not (folder / "saved_model.pb").is_file():
        raise FileError(
            f"{folder} is no SavedModel", where=str(folder), why="it has no saved_model.pb",
            hint="write one with tf.saved_model.save or Keras's model.export",
        )  # fmt: skip
    sizes = dict(map(_parse_shape, shapes))
    with progress(f"converting {folder.name}"), tempfile.TemporaryDirectory() as made:
        words = [python, "-P", str(CHILD), str(folder), signature, made, json.dumps(sizes)]
        run_converter(
            words, b"", folder, "a SavedModel", os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        )
        told = json.loads((Path(made) / "interface.json").read_text())
        module = load((Path(made) / "program.pb").read_bytes())
    return SavedModel(module, tuple(told["inputs"]), tuple(told["outputs"]))


def _parse_shape(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.partition("=")
    parts = [part for part in sizes.split(",") if part]
    if not name or "=" not in text or not all(map(str.isdecimal, parts)):
        raise UsageError(
            f"--shape {text!r}", why="it is INPUT=SIZES, numbers with commas", hint="--shape x=1,28"
        )
    return name, list(map(int, parts))
