"""First calls: measured in processes of their own, kept, shown."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cpu.wire import save_arrays
from benchmarks.models.first_calls import COLD, WARM, XLA, FirstCall, load, measure, save, section
from benchmarks.models.model_rows import Known, model_rows
from xladev.hlo.load import load as load_module
from xladev.hlo.proto import write_module

ARGUMENT, CONSTANT = model_rows({"net": Known((1,))}, [1])
TEXT = """HloModule m
ENTRY e { x = f32[3] parameter(0) c = f32[3] constant({1,2,4}) ROOT y = f32[3] multiply(x, c) }
"""


def call(seconds: float, peak: int) -> FirstCall:
    step = (9.0, seconds / 2, peak)
    return FirstCall(dict.fromkeys(("start", "load", "compile", "call"), step), "d")


def test_a_section_compares_with_xla(tmp_path: Path) -> None:
    assert section(tmp_path, [ARGUMENT, CONSTANT]) == ""
    found = {COLD: call(1, 5_000_000), WARM: call(0.2, 4_000_000), XLA: call(2, 7_000_000)}
    save(tmp_path, ARGUMENT, found)
    save(tmp_path, CONSTANT, {COLD: call(1, 5_000_000), WARM: call(0.2, 4_000_000)})
    text = section(tmp_path, [ARGUMENT, CONSTANT])
    assert "| net, batch 1 | 1 s | 500 ms | 2 s | 1 s | 2.00 | 200 ms | 5 | 4 | 7 |" in text
    assert "| net, batch 1, weights constant | 1 s | 500 ms |  |  |  | 200 ms | 5 | 4 |  |" in text
    assert "arguments, XLA:CPU's over ours has the geometric mean 2.00." in text
    assert "as constants" not in text


def test_what_is_measured_is_kept(tmp_path: Path) -> None:
    module = load_module(TEXT.encode())
    (tmp_path / "constants.pb").write_bytes(write_module(module))
    save_arrays(tmp_path / "inputs.npz", [np.ones(3, np.float32)])
    found = measure(CONSTANT, tmp_path, "")
    save(tmp_path, CONSTANT, found)
    assert load(tmp_path, CONSTANT).keys() == {COLD, WARM}
    assert found[COLD].digest == found[WARM].digest
    assert 0 < found[WARM].first_s < found[COLD].first_s
    assert found[COLD].peak > 10_000_000


def test_xla_that_fails_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "constants.pb").write_bytes(write_module(load_module(TEXT.encode())))
    save_arrays(tmp_path / "inputs.npz", [np.ones(3, np.float32)])
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    assert measure(CONSTANT, tmp_path, str(python)).keys() == {COLD, WARM}
    assert "XLA:CPU failed" in capsys.readouterr().err
