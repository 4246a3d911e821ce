"""cuDNN's adapter: on a fake of its front end, and on the real one as far as that goes alone."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.platforms.cuda.driver import fake_cudnn, fake_cupy
from tests.unit.platforms.cuda.driver.test_emulated_cudnn import CALLS, PLAIN
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.compiler.options import CompileOptions
from xladev.hlo.dtype import by_name
from xladev.platforms.cuda import machine
from xladev.platforms.cuda.compiler import CudaCompiler, CudaEmulationCompiler
from xladev.platforms.cuda.driver import cudnn, cupy_driver, found
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.driver.interface import LibraryError

EXACT = CALLS["backward kernel"]


class TimedEvent:
    """At what its stream's work took so far."""

    def record(self, stream):
        stream.run()
        self.ms = stream.ms

    def synchronize(self):
        pass


@pytest.fixture
def open_device(monkeypatch, tmp_path):
    """A function from proposed plans to a device on which the fake proposes them."""
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path))

    def opened(*plans):
        fake, module = fake_cupy.make(), fake_cudnn.make(*plans)
        fake.cuda.get_elapsed_time = lambda first, last: last.ms - first.ms
        monkeypatch.setattr(fake.cuda, "Event", TimedEvent)
        monkeypatch.setattr(cupy_driver, "_import_cupy", lambda: (fake, ""))
        monkeypatch.setattr(cudnn, "front_end", lambda: (module, ""))
        return cupy_driver.CupyDriver().open(0)

    return opened


def results(device, call):
    """What a call writes, of operands by a seed."""
    generator = np.random.default_rng(0)
    sizes = cudnn.buffer_nbytes(call)
    held = [device.allocate(n) for n in sizes]
    for allocation, nbytes in zip(held, sizes[:-2], strict=False):
        dtype = by_name(call.writes.dtype).np
        data = generator.uniform(-1, 1, nbytes // dtype.itemsize).astype(dtype)
        device.copy_to_device(allocation.address, data.view(np.uint8))
    kernel, stream = device.libraries.prepare(call, "k"), device.create_stream()
    stream.launch(kernel, LaunchDimensions(), [a.address for a in held])
    assert stream.record().synchronize()
    values = np.zeros(sizes[-2], np.uint8)
    device.copy_to_host(values, held[-2].address)
    return values


@pytest.mark.parametrize("name", CALLS)
def test_graphs_compute_what_the_emulator_does(name, open_device):
    wanted = results(EmulatedDriver(0).open(0), CALLS[name])
    assert wanted.any()
    assert np.array_equal(results(open_device(), CALLS[name]), wanted)


PLANS = (
    fake_cudnn.Plan("broken", builds=False),
    fake_cudnn.Plan("slow", ms=3),
    fake_cudnn.Plan("large", ms=0.1, workspace=1 << 40),
    fake_cudnn.Plan("fast", ms=1),
)


def test_the_fastest_plan_is_measured_once_and_kept(open_device):
    device = open_device(*PLANS)
    device.libraries.prepare(PLAIN, "k")
    assert set(fake_cudnn.executed) == {"slow", "fast"}
    again = open_device(*PLANS)
    results(again, PLAIN)
    assert fake_cudnn.executed == ["fast"]


def test_a_kept_plan_that_is_gone_is_measured_again(open_device):
    open_device(*PLANS).libraries.prepare(PLAIN, "k")
    open_device(*PLANS[:2], fake_cudnn.Plan("new", ms=2)).libraries.prepare(PLAIN, "k")
    assert set(fake_cudnn.executed) == {"slow", "new"}


def test_a_deterministic_call_measures_nothing(open_device):
    noisy = fake_cudnn.Plan("noisy", notes=["NONDETERMINISTIC"], ms=0.1)
    device = open_device(noisy, *PLANS)
    results(device, replace(PLAIN, deterministic=True))
    assert fake_cudnn.executed == ["slow"]


@pytest.mark.parametrize(
    ("note", "call", "is_used"),
    [
        ("TENSOR_CORE", EXACT, False),
        ("DOWN_CONVERT_INPUTS", EXACT, False),
        ("WINOGRAD", EXACT, False),
        ("REDUCED_PRECISION_REDUCTION", PLAIN, False),
        ("TENSOR_CORE", PLAIN, True),
        ("TENSOR_CORE", CALLS["tf32"], True),
        ("DOWN_CONVERT_INPUTS", CALLS["tf32"], True),
    ],
)
def test_engines_that_lose_digits_are_not_used(note, call, is_used, open_device):
    device = open_device(fake_cudnn.Plan("coarse", notes=[note], ms=0.1), fake_cudnn.Plan("exact"))
    results(device, call)
    assert ("coarse" in fake_cudnn.executed) == is_used


def test_without_a_plan_the_call_is_refused(open_device):
    with pytest.raises(LibraryError, match="NOT_SUPPORTED .no engine"):
        open_device(PLANS[0]).libraries.prepare(PLAIN, "k")
    with pytest.raises(LibraryError, match="no plan with .* bytes of workspace"):
        open_device(PLANS[2]).libraries.prepare(PLAIN, "k")


def test_libraries_are_asked_before(open_device):
    device = open_device(PLANS[1])
    assert device.libraries.convolution_version() == "1.32.0 91300"
    assert device.libraries.refusal(PLAIN) == ""
    assert "validate: FAILED" in device.libraries.refusal(replace(PLAIN, padding=(1, 1)))
    fake_cudnn.plans[:] = PLANS[:1]
    assert "no engine" in device.libraries.refusal(PLAIN)


def test_the_compiler_asks_this_machines_gpu(open_device, monkeypatch):
    device = open_device(PLANS[0])
    monkeypatch.setattr(machine, "_device", lambda: device)
    machine.machine_refusal.cache_clear()
    machine.machine_state.cache_clear()
    compiler, here = CudaCompiler(), CompileOptions()
    assert "no engine" in compiler.refusal(here)(PLAIN)
    assert compiler.cache_state(here) == "fake GPU 1.32.0 91300"
    other = CompileOptions(target="sm_80")
    assert (compiler.refusal(other)(PLAIN), compiler.cache_state(other)) == ("", "")
    emulated = CudaEmulationCompiler()
    assert (emulated.refusal(here)(PLAIN), emulated.cache_state(here)) == ("", "")
    machine.machine_refusal.cache_clear()
    machine.machine_state.cache_clear()


def test_a_wrong_descriptor_is_refused(open_device):
    with pytest.raises(LibraryError, match="validate: FAILED"):
        open_device().libraries.prepare(replace(PLAIN, padding=(1, 1)), "k")


def test_a_missing_front_end_is_said_with_its_package(monkeypatch):
    found.front_end.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "cudnn", None)
    assert found.front_end() == (
        None,
        "its front end is not installed: pip install 'xladev-cuda[cudnn]'",
    )
    with pytest.raises(LibraryError, match="cudnn: NOT_FOUND"):
        cudnn.Cudnn()
    found.front_end.cache_clear()


@pytest.mark.parametrize("name", CALLS)
def test_the_real_front_end_takes_the_graphs(name):
    """Its own Python checks names, keywords and shapes; what follows needs a GPU."""
    real = pytest.importorskip("cudnn")
    call = CALLS[name]
    graph = cudnn.describe(real, None, call)
    written = call.writes
    shapes = {t.get_uid(): (t.get_dim(), t.get_stride()) for t in graph.tensors.values()}
    assert shapes[len(cudnn.buffer_nbytes(call)) - 1] == (list(written.dims), list(written.strides))
    assert {n.node_type.name for n in graph.nodes} & {"CONV_FPROP", "CONV_DGRAD", "CONV_WGRAD"}
    assert len(graph.nodes) == 1 + 2 * (call.epilogue == "RELU_BIAS")


def test_what_the_fake_has_the_module_has():
    real, fake = pytest.importorskip("cudnn"), fake_cudnn.make()
    for name in vars(fake):
        assert hasattr(real, name), name
    for name in ("data_type", "heur_mode", "numerical_note"):
        assert set(vars(getattr(fake, name))) <= set(dir(getattr(real, name)))
    for kind, mine in ((real.pygraph, fake_cudnn.Graph), (real.Tensor, fake_cudnn.Tensor)):
        public = {n for n in vars(mine) if not n.startswith("_")} - {"call", "bound"}
        assert public <= set(dir(kind))
