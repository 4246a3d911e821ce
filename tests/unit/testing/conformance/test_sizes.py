"""Cases that a device has no room for: what they need, how they are cut, and that all are run."""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.unit.testing.conformance.behaviour.test_suite import suite
from tests.unit.testing.conformance.installed import installed
from tests.unit.testing.conformance.test_plugin import run
from xladev.hlo.text import parse_module
from xladev.testing.conformance.case import Case, cuttable, divided
from xladev.testing.conformance.sizes import (
    LEAST_NBYTES,
    at_most,
    fits,
    fitted,
    types_of,
    values_nbytes,
)

MIB = 1 << 20
LONG = "reduce_variants::ReduceR1_16M_F32_To_R0"


@cache
def large_programs() -> dict[str, tuple[Case, int]]:
    """Those of more than 1 MiB, with their bytes."""
    programs = {name: case for name, case in suite().items() if isinstance(case, Case)}
    sizes = {name: values_nbytes(case.module()) for name, case in programs.items()}
    return {name: (programs[name], size) for name, size in sizes.items() if size > MIB}


def nbytes(entry: str, *others: str) -> int:
    return values_nbytes(
        parse_module("\n".join(("HloModule m", *others, f"ENTRY e {{ {entry} }}")))
    )


def test_values_count_while_they_are_alive() -> None:
    chain = "a = f32[10] parameter(0)  b = f32[10] negate(a)  c = f32[10] negate(b)  "
    assert nbytes(chain + "ROOT d = f32[10] negate(c)") == 3 * 40  # the argument, c and d
    assert nbytes(chain + "ROOT d = f32[10] add(b, c)") == 4 * 40


def test_what_a_tuple_holds_lives_as_long_as_what_is_taken_from_it() -> None:
    held = """a = f32[10] parameter(0)  b = f32[10] negate(a)  t = (f32[10]) tuple(b)
  g = f32[10] get-tuple-element(t), index=0  c = s8[3] constant({1, 2, 3})"""
    assert nbytes(f"{held}  ROOT d = f32[10] abs(g)") == 3 * 40 + 3
    assert nbytes(f"{held}  ROOT r = (f32[10], s8[3]) tuple(g, c)") == 2 * 40 + 3


def test_what_is_called_counts_beside_what_its_caller_keeps() -> None:
    body = "body { x = f32[10] parameter(0)  y = f32[10] negate(x)  ROOT z = f32[10] abs(y) }"
    called = "a = f32[10] parameter(0)  ROOT c = f32[10] call(a), to_apply=body"
    assert nbytes(called, body) == 4 * 40  # a and c, then y and z


def test_state_of_a_loop_is_a_value() -> None:
    loop = """turn { s = (f32[10]) parameter(0)  x = f32[10] get-tuple-element(s), index=0
  y = f32[10] negate(x)  ROOT t = (f32[10]) tuple(y) }
on { s = (f32[10]) parameter(0)  ROOT p = pred[] constant(false) }"""
    entry = """a = f32[10] parameter(0)  t = (f32[10]) tuple(a)
  w = (f32[10]) while(t), condition=on, body=turn
  ROOT r = f32[10] get-tuple-element(w), index=0"""
    assert nbytes(entry, loop) == 3 * 40


def test_a_device_that_does_not_say_its_memory_holds_everything() -> None:
    assert fits(1 << 60, None)
    assert not fitted(suite()[LONG], None).cut


def test_what_fits_is_run_as_it_is() -> None:
    case = suite()[LONG]
    assert fitted(case, 256 * MIB).case is case
    assert fitted(case, 256 * MIB).cut == ""


@pytest.mark.parametrize(("memory", "length"), [(64 * MIB, 1 << 22), (16 * MIB, 1 << 20)])
def test_what_does_not_fit_is_run_smaller_under_its_name(memory: int, length: int) -> None:
    case = suite()[LONG]
    found = fitted(case, memory)
    assert found.case.name == case.name
    assert found.case.opcode == case.opcode
    assert found.cut == (
        f"f32[{length}] -> f32[] instead of f32[16777216] -> f32[]: "
        f"twice 67108876 bytes do not fit the device's {memory}"
    )
    (row,) = found.case.runs(found.module, 0)
    assert row[0].shape == (length,)


@pytest.mark.long
@pytest.mark.parametrize("memory", [64 * MIB, 16 * MIB, LEAST_NBYTES, 1])
def test_every_program_of_the_suite_fits_every_device(memory: int) -> None:
    assert len(large_programs()) > 10
    for name, (case, nbytes) in large_programs().items():
        found = fitted(case, memory)
        assert fits(values_nbytes(found.module), memory), name
        assert bool(found.cut) == (not fits(nbytes, memory)), name


def test_no_device_is_so_small_that_cases_are_cut_to_nothing() -> None:
    smallest = fitted(suite()[LONG], 1)
    assert values_nbytes(smallest.module) > LEAST_NBYTES // 8


def test_a_conversion_that_is_cut_takes_all_patterns_in_more_runs() -> None:
    case, _ = large_programs()["numerics::convert-bf16-all"]
    found = fitted(case, LEAST_NBYTES)
    rows = found.case.runs(found.module, 0)
    assert sum(row[0].size for row in rows) == 1 << 16


def test_checks_ask_for_as_much_as_there_is_room_for() -> None:
    assert at_most(16 * MIB, None) == 16 * MIB
    assert at_most(16 * MIB, 32 * MIB) == 16 * MIB
    assert at_most(16 * MIB, 16 * MIB) == 8 * MIB
    assert at_most(16 * MIB, 1) == LEAST_NBYTES // 2


def test_a_case_is_made_smaller_along_its_largest_dimension() -> None:
    assert divided((2, 300, 784), 4) == (2, 300, 196)
    assert divided((3,), 8) == (1,)
    case = cuttable(lambda factor: Case("a", f"HloModule m{factor}"))
    assert case.program == "HloModule m1"
    assert case.cut is not None
    assert case.cut(2).program == "HloModule m2"


def test_types_of_large_programs_are_shortened() -> None:
    many = ", ".join(["f32[1]"] * 100)
    wide = ", ".join(f"p{i}" for i in range(100))
    parameters = "".join(f"p{i} = f32[1] parameter({i})  " for i in range(100))
    module = parse_module(f"HloModule m\nENTRY e {{ {parameters}ROOT t = ({many}) tuple({wide}) }}")
    text = types_of(module)
    assert len(text) < 300
    assert "index" not in text


CASES = {
    LONG: "f32[1048576] -> f32[] instead of f32[16777216] -> f32[]",
    "reduce_variants::ReduceR1_1M_F32_To_R0": "",
    "memory::freed-memory-is-used-again": "8388608 bytes at once instead of 16777216",
    "first_steps::large": "",
}


@pytest.mark.long
def test_a_device_of_16_mib_passes_what_is_cut_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_NBYTES", str(16 * MIB))
    report = tmp_path / "report"
    cases = [f"tests/conformance/{c.replace('::', '.py::')}" for c in CASES]
    code, output = run(
        "-q", *cases, "--backend=small", f"--report={report}",
        path=installed("small", tmp_path / "site"),
    )  # fmt: skip
    assert code == pytest.ExitCode.OK, output
    assert f"cut to the device's memory: 2 cases, such as {LONG}" in output
    found = {r["id"]: r for r in json.loads((report / "conformance.json").read_text())["cases"]}
    for case, cut in CASES.items():
        assert found[case]["status"] == "pass", (case, found[case])
        assert found[case].get("cut", "").startswith(cut), found[case]
        assert bool(found[case].get("cut")) == bool(cut), found[case]
    for name in ("conformance.md", "conformance.html"):
        assert "instead of" in (report / name).read_text()
