"""Constants that products read in panels: the same bits, the constant gone, nothing kept twice."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xladev
from tests.tools.cross import MACHINES, cross_compile
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, literal_of
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import rebuild
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, constant_panels, linker
from xladev.platforms.cpu.aligned import address_of, in_place
from xladev.platforms.cpu.codegen.choices import choices
from xladev.platforms.cpu.codegen.products.few_rows import MOST_ROWS
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.payload import ALIGNMENT, CpuPayload

BF16: Any = ml_dtypes.bfloat16
DTYPES: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "bf16": BF16, "s32": np.int32}


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def dot(m: int, k: int, n: int, dtype: str = "f32", turned: int = 0, batch: str = "") -> HloModule:
    """A product of two parameters; a turned right operand has the summed dimension last."""
    right = f"{n},{k}" if turned else f"{k},{n}"
    first = batch.count(",")
    dims = ",".join(map(str, range(first)))
    return parse_module(f"""HloModule m
    ENTRY e {{ x = {dtype}[{batch}{m},{k}] parameter(0)  y = {dtype}[{batch}{right}] parameter(1)
      ROOT d = {dtype}[{batch}{m},{n}] dot(x, y), lhs_batch_dims={{{dims}}},
        rhs_batch_dims={{{dims}}}, lhs_contracting_dims={{{first + 1}}},
        rhs_contracting_dims={{{first + turned}}} }}""")


def convolution(labels: str, filters: str, groups: int = 1, channels: int = 16) -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[2,9,8,{channels}] parameter(0)  w = f32[{filters}] parameter(1)
      ROOT c = f32[2,9,8,48] convolution(x, w), window={{size=3x3 pad=1_1x1_1}},
        dim_labels=b01f_{labels}->b01f, feature_group_count={groups} }}""")


def with_constant(module: HloModule, value: Array) -> HloModule:
    """The module with its second parameter, which comes last, as a constant."""
    parameter = module.entry.parameters[1]
    literal = literal_of(value)
    constant = replace(
        parameter, op=opdef("constant"), attrs={"literal": literal}, shape=literal.shape
    )
    entry = rebuild(module.entry, {parameter: constant})
    return replace(module, entry=entry, header=replace(module.header, entry_layout=None))


def drawn(module: HloModule, rng: np.random.Generator) -> list[Array]:
    found = []
    for p in module.entry.parameters:
        dtype = p.shape.element_type.np
        values = rng.standard_normal(p.shape.dims) * (9 if np.dtype(dtype).kind == "i" else 1)
        found.append(values.astype(dtype))
    return found


def constants_of(module: HloModule, options: CompileOptions | None = None) -> list[int]:
    """Bytes of the constants of a module's executable."""
    made: Executable = CpuCompiler().compile(module, options or CompileOptions())
    return [len(c) for c in made.blobs]


def check(
    module: HloModule, rng: np.random.Generator, change: Callable[[Array], Array] | None = None
) -> list[int]:
    """The same bits with the right operand given and as a constant; bytes of the constants."""
    x, y = drawn(module, rng)
    y = change(y) if change else y
    want = np.asarray(xladev.compile(module, "cpu")(x, y))
    constant = with_constant(module, y)
    got = np.asarray(xladev.compile(constant, "cpu")(x))
    assert np.any(want.astype(np.float64))
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    return constants_of(constant)


def width(size: int) -> int:
    return 2 * target_traits().vector_nbytes // size


def in_panels(columns: int, size: int) -> int:
    """Columns with those of the last panel."""
    return -(-columns // width(size)) * width(size)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("n", [8, 31, 64, 130])
@pytest.mark.parametrize("m", [4, 9, 260])
def test_a_dot_reads_panels(m: int, n: int, turned: int, rng: np.random.Generator) -> None:
    sums_along_memory = (turned and m <= MOST_ROWS) or n <= min(m, MOST_ROWS)
    columns = n if sums_along_memory else in_panels(n, 4)
    assert check(dot(m, 67, n, turned=turned), rng) == [67 * columns * 4]


@pytest.mark.parametrize(("m", "columns"), [(3, in_panels(130, 4)), (30, in_panels(130, 4))])
def test_the_depth_goes_in_parts(m: int, columns: int, rng: np.random.Generator) -> None:
    assert check(dot(m, 1003, 130), rng) == [1003 * columns * 4]


@pytest.mark.parametrize(("m", "columns"), [(3, 600), (16, 600), (17, in_panels(600, 4))])
def test_products_whose_threads_share_the_depth_read_rows(
    m: int, columns: int, rng: np.random.Generator
) -> None:
    assert check(dot(m, 1203, 600), rng) == [1203 * columns * 4]


@pytest.mark.parametrize("turned", [0, 1])
def test_each_batch_has_its_panels(turned: int, rng: np.random.Generator) -> None:
    nbytes = 6 * 33 * in_panels(40, 4) * 4
    assert check(dot(7, 33, 40, turned=turned, batch="2,3,"), rng) == [nbytes]


@pytest.mark.parametrize("dtype", ["f64", "s32"])
def test_types(dtype: str, rng: np.random.Generator) -> None:
    size = np.dtype(DTYPES[dtype]).itemsize
    assert check(dot(15, 70, 45, dtype, 1), rng) == [70 * in_panels(45, size) * size]


@pytest.mark.skipif(not target_traits().has_bfloat_products, reason="no products of bf16 here")
@pytest.mark.parametrize("has_denormals", [False, True])
def test_pairs_of_bf16_and_their_denormals(has_denormals: bool, rng: np.random.Generator) -> None:
    def change(y: Array) -> Array:
        y[1, 2] = 1e-39 if has_denormals else 1
        return y

    found = check(dot(20, 64, 70, "bf16"), rng, change)
    assert found == [64 * in_panels(70, 4) * 2]


@pytest.mark.parametrize(
    ("labels", "filters", "groups"),
    [("01io", "3,3,16,48", 1), ("oi01", "48,16,3,3", 1), ("o01i", "48,3,3,16", 1),
     ("01io", "3,3,4,48", 4), ("oi01", "48,8,3,3", 2)],
)  # fmt: skip
def test_a_convolution_reads_panels(
    labels: str, filters: str, groups: int, rng: np.random.Generator
) -> None:
    depth = 9 * 16 // groups
    nbytes = depth * groups * in_panels(48 // groups, 4) * 4
    assert check(convolution(labels, filters, groups), rng) == [nbytes]


def test_positions_of_a_convolution_go_in_parts(rng: np.random.Generator) -> None:
    module = convolution("01io", "3,3,64,48", channels=64)
    assert check(module, rng) == [9 * 64 * in_panels(48, 4) * 4]


def test_few_channels_run_on_through_a_line_of_the_window(rng: np.random.Generator) -> None:
    module = convolution("01io", "3,3,3,48", channels=3)
    assert check(module, rng) == [27 * in_panels(48, 4) * 4]


@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_processors_with_other_vectors(
    nbytes: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(target_traits(), vector_nbytes=nbytes)
    other = replace(compiler.host_target(), traits=traits)
    for each in (linker, compiler):
        monkeypatch.setattr(each, "target_traits", lambda: traits)
    monkeypatch.setattr(compiler, "host_target", lambda: other)
    whole = -(-50 // (nbytes // 2)) * (nbytes // 2)
    assert check(dot(19, 25, 50, turned=1), rng) == [25 * whole * 4]
    whole = -(-48 // (nbytes // 2)) * (nbytes // 2)
    assert check(convolution("01io", "3,3,16,48"), rng) == [144 * whole * 4]


def test_panels_of_another_target_are_still_right(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(target_traits(), vector_nbytes=target_traits().vector_nbytes // 2)
    for each in (linker, compiler):
        monkeypatch.setattr(each, "target_traits", lambda: traits)
    for module in (dot(19, 25, 50), convolution("01io", "3,3,16,48")):
        x, y = drawn(module, rng)
        got = np.asarray(xladev.compile(with_constant(module, y), "cpu")(x))
        want = np.asarray(xladev.compile(module, "cpu")(x, y))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["dot", "convolution"])
def test_all_ways_that_tuning_tries_read_panels(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {"dot": dot(300, 700, 64), "convolution": convolution("01io", "3,3,64,48", 1, 64)}
    x, y = drawn(ways[name], rng)
    module = with_constant(ways[name], y)
    packed = constant_panels.with_constant_panels(module, target_traits())
    (choice,) = choices(KernelSpec("k", packed.entry.root["calls"]), target_traits(), 1)
    assert len(choice.tactics) > 2
    want = np.asarray(xladev.compile(module, "cpu")(x)).tobytes()
    for tactic in choice.tactics:
        monkeypatch.setattr(compiler, "DEFAULT", tactic)
        compiled = xladev.compile(module, "cpu")
        assert np.asarray(compiled(x)).tobytes() == want
        assert calls_panels(compiled), tactic


def calls_panels(compiled: Any) -> bool:
    (executable,) = compiled.program.executables
    microkernels = CpuPayload.from_bytes(executable.payload).microkernels
    return any("block.panels" in p.symbol for p in microkernels)


# What becomes of the constant

BOTH = """HloModule m
ENTRY e {{ x = f32[4,{k}] parameter(0)  w = f32[{k},{n}] parameter(1)
  d = f32[4,{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = (f32[4,{n}], f32[{k},{n}]) tuple(d, {other}) }}"""


def both(k: int, n: int, other: str) -> list[int]:
    text = BOTH.format(k=k, n=n, other="w")
    if other:
        text = text.replace("ROOT", f"o = f32[{k},{n}] {other}\n  ROOT").replace(", w) }", ", o) }")
    module = parse_module(text)
    return constants_of(with_constant(module, np.ones((k, n), np.float32)))


def test_a_small_constant_that_is_read_elsewhere_is_kept_too() -> None:
    assert sorted(both(64, 40, "exponential(w)")) == [64 * 40 * 4, 64 * in_panels(40, 4) * 4]


def test_a_large_constant_is_not_kept_twice() -> None:
    assert both(1024, 512, "exponential(w)") == [1024 * 512 * 4]


def test_a_large_constant_in_two_orders_stays_as_it_is() -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[4,1024] parameter(0)  w = f32[1024,1024] parameter(1)
      a = f32[4,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT b = f32[4,1024] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""")
    ones = np.ones((1024, 1024), np.float32)
    assert constants_of(with_constant(module, ones)) == [4 << 20]


def test_products_of_one_constant_share_its_panels() -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[4,1024] parameter(0)  w = f32[1024,1024] parameter(1)
      a = f32[4,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT b = f32[4,1024] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    ones = np.ones((1024, 1024), np.float32)
    assert constants_of(with_constant(module, ones)) == [4 << 20]


def test_what_moves_or_converts_a_constant_is_done_beforehand(rng: np.random.Generator) -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[6,400] parameter(0)  w = f64[300,20,20] parameter(1)
      t = f64[20,20,300] transpose(w), dimensions={1,2,0}  c = f32[20,20,300] convert(t)
      r = f32[400,300] reshape(c)
      ROOT d = f32[6,300] dot(x, r), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    assert check(module, rng) == [400 * in_panels(300, 4) * 4]


def test_a_constant_in_a_loop(rng: np.random.Generator) -> None:
    module = parse_module("""HloModule m
    body { s = (s32[], f32[3,40]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      x = f32[3,40] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
      w = f32[40,40] iota(), iota_dimension=1  v = f32[40,40] sine(w)
      y = f32[3,40] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
      ROOT r = (s32[], f32[3,40]) tuple(j, y) }
    cond { s = (s32[], f32[3,40]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(5)  ROOT c = pred[] compare(i, n), direction=LT }
    ENTRY e { x = f32[3,40] parameter(0)  z = s32[] constant(0)
      t = (s32[], f32[3,40]) tuple(z, x)
      l = (s32[], f32[3,40]) while(t), condition=cond, body=body
      ROOT o = f32[3,40] get-tuple-element(l), index=1 }""")
    body = next(c for c in module.computations if c.name == "body")
    weights = next(i for i in body.instructions if i.name == "v")
    x = rng.standard_normal((3, 40)).astype(np.float32)
    w = np.sin(np.broadcast_to(np.arange(40, dtype=np.float32), (40, 40)))
    w = w / 40 + rng.standard_normal((40, 40)).astype(np.float32) / 7
    literal = literal_of(w.astype(np.float32))
    constant = replace(weights, op=opdef("constant"), operands=(), attrs={"literal": literal})
    changed = rebuild(body, {weights: constant})
    entry = module.entry
    loop = next(i for i in entry.instructions if i.opcode == "while")
    entry = rebuild(entry, {loop: replace(loop, attrs={**loop.attrs, "body": changed})})
    module = replace(module, entry=entry)
    want = x.astype(np.float64)
    for _ in range(5):
        want = want @ w.astype(np.float64).T
    got = np.asarray(xladev.compile(module, "cpu")(x))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(np.abs(want).max()))
    assert 40 * in_panels(40, 4) * 4 in constants_of(module)


@pytest.mark.parametrize(
    "module",
    [dot(1, 256, 256), dot(4, 4, 1024), dot(4, 64, 4), dot(8, 64, 64, "bf16")],
    ids=["one row", "no depth", "few columns", "would become wider"],
)
def test_what_is_not_packed_in_runs_stays(module: HloModule, rng: np.random.Generator) -> None:
    _, y = drawn(module, rng)
    assert constants_of(with_constant(module, y)) == [y.nbytes]


def test_without_optimisation_constants_stay(rng: np.random.Generator) -> None:
    module = dot(8, 64, 40)
    _, y = drawn(module, rng)
    options = CompileOptions(optimization_level=0)
    assert constants_of(with_constant(module, y), options) == [y.nbytes]


def test_the_constant_itself_is_as_it_was(rng: np.random.Generator) -> None:
    module = dot(8, 64, 40)
    x, y = drawn(module, rng)
    constant = with_constant(module, y)
    before = constant.entry
    xladev.compile(constant, "cpu")(x)
    literal = next(i for i in before.instructions if i.opcode == "constant")["literal"]
    np.testing.assert_array_equal(literal.array, y)
    assert constant_panels.with_constant_panels(module, target_traits()) is module


def test_saved_executables_have_their_panels(rng: np.random.Generator, tmp_path: Path) -> None:
    module = dot(8, 64, 40)
    x, y = drawn(module, rng)
    compiled = xladev.compile(with_constant(module, y), "cpu")
    compiled.save(tmp_path / "m.xladev")
    loaded = xladev.load_executable(tmp_path / "m.xladev")
    assert np.asarray(loaded(x)).tobytes() == np.asarray(compiled(x)).tobytes()


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.target)
def test_objects_for_other_machines_have_theirs(
    machine: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    if machine.missing:
        pytest.skip(machine.missing)
    if machine.needs and machine.needs not in Path("/proc/cpuinfo").read_text("utf-8"):
        pytest.skip(f"this processor has no {machine.needs}")
    module = parse_module("""HloModule m
    ENTRY e { x = f32[9,40] parameter(0)  y = f32[37,40] parameter(1)
      ROOT d = f32[9,37] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""")
    x, y = drawn(module, rng)
    (got,) = cross_compile(with_constant(module, y), machine)([x], tmp_path)
    np.testing.assert_allclose(got, x @ y.T, rtol=0, atol=1e-4)


def test_panels_are_used_where_they_were_packed(rng: np.random.Generator) -> None:
    """Neither the payload nor what is loaded has a copy of them."""
    module = dot(8, 640, 400)
    x, y = drawn(module, rng)
    compiled = xladev.compile(with_constant(module, y), "cpu")
    (blob,) = compiled.program.executables[0].blobs
    assert len(compiled.program.executables[0].payload) < y.nbytes
    place = np.frombuffer(blob, np.uint8)
    assert place.ctypes.data % ALIGNMENT == 0 and not place.flags.writeable
    used = [address_of(in_place(blob)) for blob in compiled.program.executables[0].blobs]
    assert used == [place.ctypes.data]
    wanted = xladev.compile(module, "cpu")(x, y)
    assert compiled(x).numpy().tobytes() == wanted.numpy().tobytes()


def test_what_is_refused_is_not_packed(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large constant that two products want in different orders."""
    module = parse_module("""HloModule m
    ENTRY e { x = f32[40,512] parameter(0)  y = f32[600,512] parameter(1)
      d = f32[40,600] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
      e = f32[40,512] dot(d, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT t = (f32[40,600], f32[40,512]) tuple(d, e) }""")
    packed: list[int] = []
    pack_into = constant_panels._Packed.pack_into
    monkeypatch.setattr(
        constant_panels._Packed,
        "pack_into",
        lambda self, place: (packed.append(place.nbytes), pack_into(self, place)),
    )
    x, y = drawn(module, rng)
    constant = with_constant(module, y)
    results = xladev.compile(constant, "cpu")(x)
    wanted = xladev.compile(module, "cpu")(x, y)
    assert [r.numpy().tobytes() for r in results] == [w.numpy().tobytes() for w in wanted]
    assert packed == []
    monkeypatch.setattr(constant_panels, "SMALL_NBYTES", 1 << 30)
    xladev.compile(constant, "cpu")(x)
    assert len(packed) == 2
