"""`import xladev` is cheap and pulls in no compiler and no framework."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable

import pytest

HEAVY = ("llvmlite", "cupy", "jax", "jaxlib", "torch", "tensorflow", "pluggy")
BUDGET_MS = 60
RUNS = 7


def run_child(code: str) -> str:
    """Standard output of `python -c code`, which must exit with 0."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_import_pulls_in_nothing_heavy() -> None:
    loaded = json.loads(run_child("import json, sys, xladev; print(json.dumps([*sys.modules]))"))
    assert {name.partition(".")[0] for name in loaded} & set(HEAVY) == set()


def test_public_names_resolve() -> None:
    code = "import xladev\nfor name in xladev.__all__: getattr(xladev, name)\nprint('ok')"
    assert run_child(code) == "ok\n"


def test_unknown_name_is_an_attribute_error() -> None:
    import xladev

    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = xladev.lod


def test_a_client_of_jax_opens_without_what_programs_need() -> None:
    """JAX opens every installed platform in programs that run on its own CPU."""
    code = (
        "import json, sys\n"
        "from xladev.frontends.jax import engine\n"
        "client, _ = engine.open_client([('platform', 'cpu')])\n"
        "print(json.dumps([*sys.modules]))"
    )
    loaded = set(json.loads(run_child(code)))
    late = {
        "xladev.client", "xladev.compiler.compile", "xladev.frontends.jax.compilation",
        "xladev.frontends.jax.program", "xladev.passes.default", "xladev.profiling",
    }  # fmt: skip
    assert not loaded & late
    assert "xladev.platforms.cpu.compiler" in loaded


@pytest.mark.serial
def test_import_costs_little_cpu(record_property: Callable[[str, object], None]) -> None:
    """Process CPU time of the import alone, after numpy and ml_dtypes, median of several."""
    code = (
        "import numpy, ml_dtypes, time\n"
        "start = time.process_time()\n"
        "import xladev\n"
        "print(time.process_time() - start)"
    )
    cost_ms = statistics.median(float(run_child(code)) for _ in range(RUNS)) * 1000
    print(f"import xladev: {cost_ms:.1f} ms of CPU beyond numpy and ml_dtypes")
    record_property("import_ms", round(cost_ms, 2))
    assert cost_ms <= BUDGET_MS
