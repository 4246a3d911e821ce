"""The GPU table of peers: its rows, roofs and failures; and xladev's adapter on the emulator."""

import sys

import numpy as np

from benchmarks import gpu_peers
from benchmarks.gpu_adapter import gpu_adapter
from benchmarks.gpu_child import FUNCTION_OF, PEERS, timed
from benchmarks.gpu_workloads import workloads
from xladev.runtime.registry import Registry, installed_plugins, using_registry


def row(name, ms, sample=(1.0, 2.0)):
    return {"row": name, "ms": ms, "sample": list(sample)}


def test_a_table_has_ratios_shares_and_differences():
    copied = next(w for w in workloads(False) if w.name == "copy_f32")
    rows = {p: {} for p in PEERS}
    rows["jax"] = {"copy_f32": row("copy_f32", 2.0), "sort_f32": row("sort_f32", 1.0)}
    rows["xladev"] = {"copy_f32": row("copy_f32", 4.0, (1.0, 1.5)), "sort_f32": {"failed": "no"}}
    lines = gpu_peers.table(rows, small=False)
    found = next(line for line in lines if line.startswith("copy_f32")).split()
    assert found[1:3] == ["2.0000", "4.0000"]
    assert found[-3:] == ["50%", "2.00", "2.5e-01"]
    assert "over 1 rows: 2.000" in lines[-2]
    assert f"{copied.nbytes / 2e9:.1f} TB/s" in lines[-1]


def test_a_peer_that_does_not_run_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XLADEV_BENCH_PYTHON_CUPY", sys.executable)
    version, rows = gpu_peers.run_peer("cupy", tmp_path, 60, True, True, [])
    assert version == "did not run: CuPy needs a GPU"
    assert rows == {}


def test_every_row_is_one_of_jax_and_arguments_repeat():
    for w in workloads(True):
        assert "jax" in w.functions
        assert set(w.functions) | set(FUNCTION_OF) <= set(PEERS)
        for n, argument in enumerate(w.arguments):
            values = argument.values(n)
            assert values.shape == argument.dims
            assert np.abs(values).max() <= argument.scale


def test_times_are_of_one_call():
    calls = []
    value, ms, first_s = timed(lambda: calls.append(0) or len(calls), lambda v: None, 1e-4)
    assert value == 1
    assert 0 < ms < 1000
    assert first_s >= 0


def test_the_adapter_computes_on_the_emulator():
    registry = Registry(lambda: [e for e in installed_plugins() if e.name != "cuda"])
    with using_registry(registry):
        adapter = gpu_adapter("cpu")
        function = adapter.compile(
            "ENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] negate(x) }", None
        )
        (found,) = function([np.arange(4, dtype=np.float32)])
        adapter.sync()
        assert np.array_equal(np.asarray(found), -np.arange(4))
        assert "emulated GPU" in adapter.version
    registry.close()
