"""Tuning: what is timed, kept, read and left alone."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.cache.store import store_of_environment
from xladev.compiler.options import CompileOptions
from xladev.errors import OptionError
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import tuning
from xladev.platforms.cpu.codegen.choices import Choice, choices
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.compiler import CpuCompiler, compile_trial
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.trials import Trial, addresses, random_operands, winner
from xladev.platforms.cpu.tuning import TABLES, table_key

DOT = """
HloModule m
ENTRY e { x = f32[96,100] parameter(0)  y = f32[100,96] parameter(1)
  ROOT d = f32[96,96] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""
SLOW = Tactic(tile=(2, 1))
FAST = Tactic(in_tiles=True)
OFF, CACHED, ON = (CompileOptions(threads=1, extras=extras) for extras in (
    {}, {"cpu.autotune": "cached"}, {"cpu.autotune": "on"}))  # fmt: skip


@pytest.fixture(autouse=True)
def _empty_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    TABLES.forget()
    yield
    TABLES.forget()


def code(options: CompileOptions, text: str = DOT) -> bytes:
    return CpuCompiler().compile(parse_module(text), options).payload


def planted(monkeypatch: pytest.MonkeyPatch, *tactics: Tactic) -> None:
    """Makes these the ways to compute any dot."""

    def only(spec: KernelSpec, target: object, threads: int) -> tuple[Choice, ...]:
        is_dot = spec.computation.root.opcode == "dot"
        return (Choice("dot", "dot planted", tactics),) if is_dot else ()

    monkeypatch.setattr(tuning, "choices", only)


def no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something is timed")

    monkeypatch.setattr(tuning, "samples_of", refuse)


def entry() -> Path:
    store = store_of_environment()
    assert store is not None
    return store.folder / f"{table_key(ON)}.entry"


def keep(data: bytes) -> None:
    store = store_of_environment()
    assert store is not None
    assert store.write(table_key(ON), data)


def test_a_slow_first_way_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, SLOW, DEFAULT)
    plain, tuned = code(OFF), code(ON)
    assert tuned == plain
    planted(monkeypatch, DEFAULT, SLOW)
    assert code(CACHED) == plain  # the table names a way, whatever its place
    assert TABLES.read(table_key(ON)) == {"dot planted": ""}


def test_a_first_way_that_is_as_fast_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    same = Tactic(panel_nbytes=32 << 10)
    planted(monkeypatch, same, DEFAULT, SLOW)
    code(ON)
    assert TABLES.read(table_key(ON)) == {"dot planted": str(same)}


def test_off_and_an_empty_table_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    no_timing(monkeypatch)
    explicit = CompileOptions(threads=1, extras={"cpu.autotune": "off"})
    assert code(OFF) == code(explicit) == code(CACHED)
    assert not entry().exists()


def test_off_reads_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = code(OFF)
    planted(monkeypatch, DEFAULT, FAST)
    keep(b'{"dot planted": "in_tiles=1"}')
    assert code(OFF) == plain != code(CACHED)


def test_one_table_gives_one_code(monkeypatch: pytest.MonkeyPatch) -> None:
    first = code(ON)
    no_timing(monkeypatch)
    assert code(ON) == code(CACHED) == first
    TABLES.forget()  # as another process would begin
    assert code(ON) == code(CACHED) == first


def test_the_same_program_is_timed_once_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLADEV_CACHE", "off")
    first = code(ON)
    no_timing(monkeypatch)
    assert code(ON) == code(CACHED) == first


@pytest.mark.parametrize("damage", [b"", b"XLADEVC\1 and more", b"\0" * 200])
def test_a_damaged_entry_counts_as_none(damage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, DEFAULT, FAST)
    plain = code(OFF)
    keep(b'{"dot planted": "in_tiles=1"}')
    assert code(CACHED) != plain
    entry().write_bytes(damage)
    assert code(CACHED) == plain
    code(ON)
    assert set(TABLES.read(table_key(ON))) == {"dot planted"}


@pytest.mark.parametrize(
    "table", [b"not JSON", b"\xff", b"[1]", b'{"dot planted": 3}', b'{"dot planted": "tile=7x9"}']
)
def test_what_a_table_cannot_mean_is_left_out(
    table: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, DEFAULT, FAST)
    keep(table)
    assert code(CACHED) == code(OFF)
    code(ON)
    assert TABLES.read(table_key(ON))["dot planted"] in ("", str(FAST))


def test_what_others_found_stays() -> None:
    ways = (DEFAULT, FAST, SLOW)
    keep(b'{"one": "in_tiles=1", "two": "tile=7x9"}')
    assert TABLES.add(table_key(ON), Choice("dot", "one", ways), str(SLOW)) == str(FAST)
    assert TABLES.add(table_key(ON), Choice("dot", "two", ways), str(SLOW)) == str(SLOW)
    assert TABLES.add(table_key(ON), Choice("dot", "three", ways), "") == ""
    TABLES.forget()
    kept = {"one": str(FAST), "two": str(SLOW), "three": ""}
    assert TABLES.read(table_key(ON)) == kept


def test_a_kept_program_goes_with_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, DEFAULT, FAST)

    def payload() -> bytes:
        program = xladev.compile(parse_module(DOT), "cpu", CACHED).program
        return program.executables[0].payload

    plain = payload()
    keep(b'{"dot planted": "in_tiles=1"}')
    assert payload() != plain
    keep(b"{}")
    assert payload() == plain


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(OptionError, match=r"cpu\.autotune is 'always'"):
        code(CompileOptions(extras={"cpu.autotune": "always"}))


def test_other_machines_are_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    no_timing(monkeypatch)
    target = "x86_64-linux-gnu"
    tuned = CompileOptions(target=target, extras={"cpu.autotune": "on"})
    assert code(tuned) == code(CompileOptions(target=target))


# Statistics


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ([10.0] * 8, [9.0] * 8, "other"),
        ([10.0] * 8, [9.8] * 8, "first"),  # within the margin
        ([10.0] * 8, [9.0] * 5 + [11.0] * 3, "first"),  # not often enough
        ([10.0] * 8, [9.0] * 6 + [90.0] * 2, "other"),  # disturbed
        ([10.0] * 8, [11.0] * 8, "first"),
    ],
)
def test_a_winner_is_faster_beyond_doubt(
    first: list[float], other: list[float], expected: str
) -> None:
    assert winner({"first": first, "other": other}, 0.05) == expected


# Bits

PROGRAMS = {
    "square": DOT,
    "streamed": DOT.replace("100,96", "100,128").replace("96,96", "96,128"),
    "tall": DOT.replace("96,100", "530,100").replace("96,96", "530,96"),
    "deep": DOT.replace("96,100", "7,600").replace("100,96", "600,50").replace("96,96", "7,50"),
    "columns": DOT.replace("100,96", "96,100").replace("dims={0}", "dims={1}"),
    "f64": DOT.replace("f32", "f64"),
    "bf16": DOT.replace("f32", "bf16"),
    "s8": DOT.replace("f32[96,96]", "s32[96,96]").replace("f32", "s8"),
    "image": """
HloModule m
ENTRY e { x = f32[2,15,15,3] parameter(0)  w = f32[7,7,3,70] parameter(1)
  ROOT y = f32[2,8,8,70] convolution(x, w), window={size=7x7 stride=2x2 pad=3_3x3_3},
    dim_labels=b01f_01io->b01f }""",
    "features": """
HloModule m
ENTRY e { x = f32[1,14,14,64] parameter(0)  w = f32[3,3,64,40] parameter(1)
  ROOT y = f32[1,14,14,40] convolution(x, w), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f }""",
    "groups": """
HloModule m
ENTRY e { x = f32[1,9,9,16] parameter(0)  w = f32[3,3,8,24] parameter(1)
  ROOT y = f32[1,7,7,24] convolution(x, w), window={size=3x3}, feature_group_count=2,
    dim_labels=b01f_01io->b01f }""",
    "wide": DOT.replace("100,96", "100,1100").replace("96,96", "96,1100"),
    "depth in parts": DOT.replace("96,100", "4,1024").replace("100,96", "1024,768")
    .replace("96,96", "4,768"),
    "narrow and deep": DOT.replace("96,100", "4,16384").replace("100,96", "16384,40")
    .replace("96,96", "4,40"),
    "sort": """
HloModule m
less { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e { x = f32[9,700] parameter(0)
  ROOT s = f32[9,700] sort(x), dimensions={1}, is_stable=true, to_apply=less }""",
    "argsort": """
HloModule m
less { a = f64[] parameter(0)  b = f64[] parameter(1)  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=GT, type=TOTALORDER }
ENTRY e { x = f64[9,70] parameter(0)  i = s32[9,70] parameter(1)
  ROOT s = (f64[9,70], s32[9,70]) sort(x, i), dimensions={1}, is_stable=true, to_apply=less }""",
    "transpose": """
HloModule m
ENTRY e { x = f32[5,70,130] parameter(0)
  ROOT y = f32[5,130,70] transpose(x), dimensions={0,2,1} }""",
    "bytes": """
HloModule m
ENTRY e { x = u8[210,310] parameter(0)
  ROOT y = u8[310,210] transpose(x), dimensions={1,0} }""",
}  # fmt: skip
MOVES = frozenset({"sort", "argsort", "transpose", "bytes"})


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_choice_changes_a_bit(name: str) -> None:
    spec = KernelSpec("k", parse_module(PROGRAMS[name]).entry)
    (choice,) = choices(spec, target_traits(), 1)
    data = random_operands(spec)
    found = {}
    for tactic in choice.tactics:
        trial = Trial(compile_trial(spec, tactic, OFF), addresses(data), spec)
        for result in trial.results:
            result[:] = 0x55
        trial.run()
        found[str(tactic)] = b"".join(result.tobytes() for result in trial.results)
    assert len(found) >= (2 if name in MOVES else 4)
    assert [key for key, bits in found.items() if bits != found[""]] == []


def test_trials_compute_what_programs_do() -> None:
    spec = KernelSpec("k", parse_module(DOT).entry)
    data = random_operands(spec)
    x, y = (a.view(np.float32).reshape(s.dims) for a, s in zip(data, spec.operands, strict=True))
    trial = Trial(compile_trial(spec, FAST, OFF), addresses(data), spec)
    trial.run()
    held = trial.results[0].view(np.float32).reshape(96, 96)
    np.testing.assert_allclose(held, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-4)
    assert np.abs(x).min() >= 0.5


def test_tuned_code_gives_the_same_at_any_number_of_threads() -> None:
    text = DOT.replace("96,", "400,").replace(",96", ",400").replace("100", "300")
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((400, 300), (300, 400))]
    found = set()
    for threads in (1, 2, 3):
        options = CompileOptions(threads=threads, extras={"cpu.autotune": "on"})
        result = xladev.compile(parse_module(text), "cpu", options)(*arrays)
        found.add(np.asarray(result).tobytes())
    assert len(found) == 1


def test_a_kernel_carries_its_tactic_as_it_is() -> None:
    spec = KernelSpec("k", parse_module(DOT).entry)
    assert CpuCompiler(lambda _: SLOW).lower(spec, OFF).tactic is SLOW
    assert CpuCompiler().lower(spec, OFF).tactic == DEFAULT
