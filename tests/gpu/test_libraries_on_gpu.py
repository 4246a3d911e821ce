"""On a GPU: library calls, graphs and exchange with CuPy."""

import numpy as np
import pytest

from tests.gpu.test_on_gpu import device, pytestmark  # noqa: F401
from tests.unit.codegen.simt.kernels.test_tiled_dots import DOTS as TILED
from tests.unit.platforms.cuda.libraries import test_cudnn_calls as cudnn
from tests.unit.platforms.cuda.libraries import test_factorisations as factorisations
from tests.unit.platforms.cuda.libraries.behaviour import test_convolutions as convolutions
from tests.unit.platforms.cuda.libraries.behaviour import test_library_programs as programs
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.instrument import collect_counters
from xladev.runtime.array import from_dlpack
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

LAYERS = {
    f"{name} {dtype}": programs.layer(dtype, rest)
    for name, rest in programs.EPILOGUES.items()
    for dtype in ("f32", "bf16")
}
FACTORS = {
    f"{dtype} {lower}": programs.cholesky(dtype, lower)
    for dtype in ("f32", "f64")
    for lower in ("true", "false")
}
TEXTS = {
    **{f"dot: {k}": v for k, v in programs.DOTS.items()},
    **{f"fft: {k}": v for k, v in programs.FFTS.items()},
    **{f"solve: {k}": v for k, v in programs.SOLVERS.items()},
    **{f"cholesky: {k}": v for k, v in FACTORS.items()},
    **{f"layer: {k}": v for k, v in LAYERS.items()},
    **{f"convolution: {k}": v for k, v in convolutions.CONVOLUTIONS.items()},
    **{f"patches: {k}": v for k, v in convolutions.CONVOLUTIONS.items()},
    **{f"{kind} {k}": v for kind, texts in cudnn.KINDS.items() for k, v in texts.items()},
    **{f"convolution, {k}": cudnn.layer("bf16", v) for k, v in cudnn.EPILOGUES.items()},
    **{f"tiled: {k}": v for k, v in TILED.items()},
}
STRICT = CompileOptions(strict=True)
OPTIONS = {
    "tiled": STRICT.with_option("cuda.library_products=false"),
    "patches": STRICT.with_option("cuda.library_convolutions=false"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_library_programs(name, device):  # noqa: F811
    module = parse_module(TEXTS[name])
    options = OPTIONS.get(name.partition(":")[0], STRICT)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, "cuda", options) is None


def test_relu_keeps_nan(device):  # noqa: F811
    """HLO's maximum does; what the library's epilogue does is seen here."""
    module = parse_module(programs.layer("f32", programs.RELU))
    x = np.full((4, 6, 10), np.nan, np.float32)
    w, b = np.ones((10, 7), np.float32), np.ones(7, np.float32)
    assert np.isnan(np.asarray(client.compile(module, "cuda")(x, w, b))).all()


def test_relu_behind_a_convolution_keeps_nan(device):  # noqa: F811
    module = parse_module(cudnn.layer("f16", cudnn.EPILOGUES["RELU"]))
    x = np.full((2, 7, 7, 8), np.nan, np.float16)
    k, b = np.ones((3, 3, 8, 8), np.float16), np.ones(8, np.float16)
    assert np.isnan(np.asarray(client.compile(module, "cuda")(x, k, b))).all()


SEVERAL_KERNELS = """ENTRY e { x = f32[8,16] parameter(0)
  y = f32[16,8] parameter(1)
  d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,8] cosine(d)
  ROOT r = f32[8,8] dot(t, t), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


def test_programs_are_replayed_as_graphs(device):  # noqa: F811
    module = parse_module(SEVERAL_KERNELS)
    compiled = client.compile(module, "cuda", CompileOptions(strict=True))
    arguments = random_arguments(module, 0)
    with collect_counters() as counters:
        found = [np.asarray(compiled(*arguments)) for _ in range(6)]
    assert all(np.array_equal(found[0], f) for f in found)
    assert counters.get("cuda.graph_launches", 0) > 0


def test_arrays_go_to_cupy_and_back_without_copies(device):  # noqa: F811
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(6, dtype=cupy.float32).reshape(2, 3)
    taken = from_dlpack(device, x)
    assert np.array_equal(np.asarray(taken), np.arange(6).reshape(2, 3))
    shown = cupy.asarray(taken)
    assert shown.data.ptr == x.data.ptr
    assert cupy.from_dlpack(taken).data.ptr == x.data.ptr


@factorisations.MATRICES
def test_factorisations(letter, batch, dims, device):  # noqa: F811
    factorisations.test_factors(letter, batch, dims, "cuda")
    for mode in "ASN":
        factorisations.test_singular_values(letter, batch, dims, mode, "cuda")
    for lower in (True, False):
        factorisations.test_eigenvalues(letter, batch, lower, "cuda")


def test_factorisations_of_what_has_none(device):  # noqa: F811
    for order in (4, 40):
        factorisations.test_what_is_not_finite_gives_nan(np.nan, order, "cuda")
    factorisations.test_singular_matrices_have_factors("cuda")


def test_methods_of_factorisation(device, monkeypatch):  # noqa: F811
    for dims, method in factorisations.METHODS:
        factorisations.test_how_singular_values_are_found(dims, method, "cuda")
    for full in (True, False):
        steps = factorisations.test_singular_values_by_qr_steps
        steps("c", (2,), (5, 3), full, "cuda", monkeypatch)
