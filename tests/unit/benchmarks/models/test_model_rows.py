"""Rows of whole models: their names, their files, what peers are asked."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cpu.measure import Peers, Plan, largest, norm
from benchmarks.cpu.peer import PeerSpec
from benchmarks.cpu.results import OURS, XLA
from benchmarks.cpu.rows import Row
from benchmarks.cpu.wire import save_arrays
from benchmarks.models.model_rows import DONE, MODEL, Converter, Known, ModelBench, model_rows

ROWS = model_rows({"net": Known((1, 8)), "wide net": Known((1,))}, [1])
FAKE = "tests.unit.benchmarks.fake_peer"


def test_weights_are_arguments_and_constants() -> None:
    assert [row.name for row in ROWS] == [
        "net, batch 1", "net, batch 1, weights constant",
        "wide net, batch 1", "wide net, batch 1, weights constant",
    ]  # fmt: skip
    assert len({row.stem for row in ROWS}) == 4
    assert [row.parameters["constant"] for row in ROWS] == [False, True] * 2


def test_weights_that_are_trained_are_arguments_alone() -> None:
    (row,) = model_rows({"step": Known((8,), is_training=True)}, [1, 8])
    assert (row.name, row.parameters["training"]) == ("step, batch 8", True)
    assert not any(row.parameters["training"] for row in ROWS)


def test_gradients_are_compared_by_their_norm(tmp_path: Path) -> None:
    bench = ModelBench(tmp_path, Converter("", tmp_path), Plan())
    (step,) = model_rows({"step": Known((8,), is_training=True)}, [8])
    assert (bench.size(step), bench.size(ROWS[0])) == (norm, largest)


def converted(folder: Path) -> Converter:
    """A converter that finds its files."""
    made = folder / "net-1"
    made.mkdir(parents=True)
    save_arrays(made / "inputs.npz", [np.ones(3, np.float32)])
    save_arrays(made / "arguments.npz", [np.ones((3, 2), np.float32), np.ones(3, np.float32)])
    (made / DONE).touch()
    return Converter("no such python", folder)


@pytest.mark.parametrize(
    ("row", "inputs", "hlo"),
    [(ROWS[0], "arguments.npz", "model.pb"), (ROWS[1], "inputs.npz", "constants.pb")],
)
def test_what_peers_are_asked(tmp_path: Path, row: Row, inputs: str, hlo: str) -> None:
    bench = ModelBench(tmp_path / "work", converted(tmp_path / "models"), Plan())
    asked = bench.request(row, 2)
    assert (Path(asked["inputs"]).name, Path(asked["hlo"]).name) == (inputs, hlo)
    assert (asked["parameters"]["given"], asked["parameters"]["training"]) == (1, False)
    assert (asked["kind"], asked["threads"]) == (MODEL, 2)


def test_a_row_is_measured(tmp_path: Path) -> None:
    bench = ModelBench(tmp_path, converted(tmp_path / "models"), Plan(rounds=3, slice_s=0.01))
    specs = [PeerSpec(name, sys.executable, (FAKE, "well")) for name in (XLA, OURS)]
    peers = Peers(specs, 1, tmp_path, 20)
    try:
        result = bench.measure(ROWS[0], peers)
    finally:
        peers.close()
    assert len(result.peers[OURS].wall) == 3


def test_a_model_that_is_not_converted_says_where_the_log_is(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho it has no torch\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(OSError, match="was not converted, see .*log") as caught:
        Converter(os.fspath(python), tmp_path).files(ROWS[2])
    assert caught.value.errno == 3
    assert (tmp_path / "wide-net-1" / "log").read_text() == "it has no torch\n"


def test_networks_are_as_the_other_python_says(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"net": [[1, 8], false], "step": [[8], true]}\'\n')
    python.chmod(0o755)
    found = Converter(os.fspath(python), tmp_path).networks()
    assert found == {"net": Known((1, 8)), "step": Known((8,), is_training=True)}
