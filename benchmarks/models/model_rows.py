"""The rows of whole models, and their files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cpu.measure import Bench, Plan, Size, largest, norm
from benchmarks.cpu.peer import ROOT
from benchmarks.cpu.rows import Row
from benchmarks.cpu.wire import Message, load_arrays

MODEL = "model"
"""Kind of the rows."""
CONSTANTS = ", weights constant"
"""How the names of rows end whose weights are constants of the HLO."""
DONE = "done"
"""File of a folder whose other files are whole."""
FACTS = "facts.json"
"""File of a folder with ``read_nbytes``: bytes of the weights that a step of decoding reads."""


@dataclass(frozen=True, slots=True)
class Known:
    """What rows know of a network.

    Attributes:
        batches: that are measured.
        is_training: a step of training; else an inference.
    """

    batches: tuple[int, ...]
    is_training: bool = False


def model_rows(networks: Mapping[str, Known], batches: Sequence[int]) -> list[Row]:
    """Each network with weights as arguments, for the batches wanted; inferences as constants too.

    Args:
        networks: by name.
        batches: those wanted.
    """
    return [
        Row(
            f"{network}, batch {batch}{end}",
            "models",
            MODEL,
            {
                "network": network,
                "batch": batch,
                "constant": bool(end),
                "training": known.is_training,
            },
        )
        for network, known in networks.items()
        for batch in known.batches
        if batch in batches
        for end in ("", *((CONSTANTS,) if not known.is_training else ()))
    ]


@dataclass(frozen=True, slots=True)
class Converter:
    """Makes the files of models.

    Attributes:
        python: that has torch.
        folder: for the files.
        limit_s: for one model.
    """

    python: str
    folder: Path
    limit_s: float = 900

    def networks(self) -> dict[str, Known]:
        """Networks by name, as that Python knows them."""
        code = (
            "import json; from benchmarks.models.networks import NETWORKS\n"
            "print(json.dumps({k: [n.batches, n.is_training] for k, n in NETWORKS.items()}))"
        )
        ran = subprocess.run(
            [self.python, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        )
        told: dict[str, tuple[list[int], bool]] = json.loads(ran.stdout.splitlines()[-1])
        return {name: Known(tuple(b), is_training) for name, (b, is_training) in told.items()}

    def files(self, row: Row) -> Path:
        """The folder of a row's model, written if it is not there.

        Raises:
            OSError: it cannot be made; the log beside it says why.
        """
        network, batch = row.parameters["network"], row.parameters["batch"]
        folder = (self.folder / Row(f"{network} {batch}", "", MODEL).stem).resolve()
        if not (folder / DONE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = [self.python, "-m", "benchmarks.models.convert", network, str(batch), folder]
            with (folder / "log").open("w") as log:
                ran = subprocess.run(
                    command, stdout=log, stderr=log, check=False, cwd=ROOT, timeout=self.limit_s
                )
            if ran.returncode:
                raise OSError(ran.returncode, f"the model was not converted, see {folder}/log")
        return folder


class ModelBench(Bench):
    """Measures whole models.

    Args:
        work: folder for results.
        converter: of the models.
        plan: how long.
    """

    def __init__(self, work: Path, converter: Converter, plan: Plan) -> None:
        super().__init__(work, None, plan)
        self._converter = converter

    def size(self, row: Row) -> Size:
        """Of gradients, the norm: inputs of ReLUs near zero change sign with any rounding.

        Each that does changes some elements of a gradient, by more than a hundredth of the largest.
        """
        return norm if row.parameters["training"] else largest

    def request(self, row: Row, threads: int) -> Message:
        """The row's files; the last of the arguments are what is given to a model with weights."""
        folder = self._converter.files(row)
        given = folder / "inputs.npz"
        is_constant = row.parameters["constant"]
        return {
            "op": "prepare",
            "kind": MODEL,
            "parameters": {
                "network": row.parameters["network"],
                "batch": row.parameters["batch"],
                "training": row.parameters["training"],
                "folder": str(folder),
                "given": len(load_arrays(given)),
            },
            "threads": threads,
            "inputs": str(given if is_constant else folder / "arguments.npz"),
            "hlo": str(folder / ("constants.pb" if is_constant else "model.pb")),
        }
