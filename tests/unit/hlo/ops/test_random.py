"""Random numbers: bits as XLA's CPU gives them, distributions of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.programs import ExportedProgram
from tests.tools.rejections import assert_rejected, of
from tests.tools.single_op import infer, module_of, run, shape_of
from xladev.errors import ShapeError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import tuple_of

THREE_FRY = [123456789012345, 2**64 - 2]
PHILOX = [2**64 - 2, 2**64 - 3]

# What XLA's CPU gave: algorithm, state, dims, type, next state, first elements in row-major order.
WITNESSES: list[tuple[str, list[int], str, list[int], list[int]]] = [
    ("rng_three_fry", THREE_FRY, "u32[5,3]", [123456789012345, 7],
     [3589291907, 1915343300, 665720666, 708385150, 1309671972, 1048139916, 1318464823,
      2912423063, 977820002, 663153676, 1438587782, 237893258, 610192556, 3593827448,
      2827487864]),
    ("rng_three_fry", THREE_FRY, "u32[]", [123456789012345, 18446744073709551615],
     [3589291907]),
    ("rng_three_fry", THREE_FRY, "u32[3,7]", [123456789012345, 10],
     [3589291907, 708385150, 1915343300, 1309671972, 665720666, 1048139916, 1318464823,
      2912423063, 1438587782, 977820002, 237893258, 610192556, 2308819755, 3593827448,
      2827487864, 1656846219, 1048746342, 99001870, 1573940978, 2634971012, 1284384585]),
    ("rng_three_fry", THREE_FRY, "u64[3]", [123456789012345, 1],
     [3042491055811346307, 5624998290143171012, 4501726661517907802]),
    ("rng_three_fry", THREE_FRY, "u8[4]", [123456789012345, 0],
     [131, 126, 196, 36]),
    ("rng_three_fry", THREE_FRY, "u16[7]", [123456789012345, 2],
     [16259, 6526, 53700, 548, 5978, 22668, 11575]),
    ("rng_philox", PHILOX, "u32[5,3]", [18446744073709551614, 1],
     [4076175588, 2163808697, 3407215383, 3925358707, 1350150334, 1450446509, 376189277,
      411451655, 2103239624, 440889476, 1658488446, 610196671, 735718870, 2552041928,
      2869572366]),
    ("rng_philox", PHILOX, "u64[3]", [18446744073709551614, 18446744073709551615],
     [9293487592491548900, 16859287275041061655, 6229620322102519998]),
    ("rng_philox", PHILOX, "u8[4]", [18446744073709551614, 18446744073709551614],
     [228, 185, 23, 115]),
    ("rng_philox", PHILOX, "u16[7]", [18446744073709551614, 18446744073709551615],
     [32996, 6585, 64279, 14451, 43198, 3757, 12637]),
    ("rng_philox", PHILOX, "u32[]", [18446744073709551614, 18446744073709551614],
     [4076175588]),
    ("rng_default", PHILOX, "u32[4]", [18446744073709551614, 18446744073709551614],
     [4076175588, 2163808697, 3407215383, 3925358707]),
    ("rng_philox", [5, 18446744073709551614, 7], "u32[9]", [5, 1, 8],
     [1600567900, 3578414771, 1611649039, 1102751893, 408654879, 156914071, 4246078289,
      2550873154, 1414544935]),
    ("rng_philox", [5, 18446744073709551614, 7], "u64[9]", [5, 3, 8],
     [15369174414568897116, 4736283317648740367, 673940803635876895, 10955916776920449873,
      4998200121197870631, 7503507341340611354, 12944800700192893517, 16605073838557874238,
      2213743519093757320]),
    ("rng_philox", [5, 18446744073709551615], "u32[9]", [5, 2],
     [1314562490, 4035658752, 2543735481, 4162936588, 64677483, 3635105107, 3931607701,
      727262183, 311226061]),
]  # fmt: skip


@pytest.mark.parametrize("witness", WITNESSES, ids=lambda w: f"{w[0]} {w[2]} {len(w[1])}")
def test_bits_are_those_of_xla(witness: tuple[str, list[int], str, list[int], list[int]]) -> None:
    algorithm, state, shape, after, elements = witness
    got_state, got = bits(algorithm, state, shape)
    assert got_state.tolist() == after
    assert got.reshape(-1).tolist() == elements


def bits(algorithm: str, state: list[int], shape: str) -> Any:
    given = np.array(state, np.uint64)
    result = tuple_of(shape_of(given), of(shape))
    return run("rng-bit-generator", given, shape=result, algorithm=algorithm)


def test_the_exported_program(programs_dir: Path) -> None:
    program = ExportedProgram(programs_dir, "rng_bit_generator_philox")
    got = HloEvaluator().run(program.module(), *program.inputs())
    for value, want in zip(got, program.expected(), strict=True):
        np.testing.assert_array_equal(value, want)


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
def test_a_stream_goes_on_where_it_stopped(algorithm: str) -> None:
    start = [7, 3, 0] if algorithm == "rng_philox" else [7, 3]
    state, first = bits(algorithm, start, "u64[8]")
    _, second = bits(algorithm, state.tolist(), "u64[8]")
    _, both = bits(algorithm, start, "u64[16]")
    np.testing.assert_array_equal(np.concatenate([first, second]), both)


def test_floats_take_the_bits_of_their_width() -> None:
    _, floats = bits("rng_philox", PHILOX, "f32[5]")
    _, words = bits("rng_philox", PHILOX, "u32[5]")
    np.testing.assert_array_equal(floats.view(np.uint32), words)


def test_of_no_elements() -> None:
    state, none = bits("rng_philox", PHILOX, "u32[0,4]")
    assert state.tolist() == PHILOX and none.shape == (0, 4)


@pytest.mark.parametrize(
    ("constraint", "state", "result", "algorithm"),
    [
        ("rng_bit_generator_c1", "u32[2]", "(u32[2], u32[4])", "rng_philox"),
        ("rng_bit_generator_c1", "u64[4]", "(u64[4], u32[4])", "rng_philox"),
        ("rng_bit_generator_c1", "u64[3]", "(u64[3], u32[4])", "rng_three_fry"),
        ("rng_bit_generator_c2", "u64[2]", "(u64[2], u32[4])", "rng_other"),
        ("rng_bit_generator_c3", "u64[2]", "u32[4]", "rng_philox"),
        ("rng_bit_generator_c3", "u64[2]", "(u64[3], u32[4])", "rng_philox"),
        ("rng_bit_generator_c3", "u64[2]", "(u64[2], u32[4], u32[4])", "rng_philox"),
        ("rng_bit_generator_c3", "u64[2]", "(u64[2], c64[4])", "rng_philox"),
        ("rng_bit_generator_c3", "u64[2]", "(u64[2], s4[4])", "rng_philox"),
    ],
)
def test_bit_generator_rejects(constraint: str, state: str, result: str, algorithm: str) -> None:
    parts = result.strip("()").split(", ")
    shape = tuple_of(*map(of, parts)) if len(parts) > 1 else of(parts[0])
    with pytest.raises(ShapeError) as caught:
        infer("rng-bit-generator", of(state), shape=shape, algorithm=algorithm)
    assert caught.value.why == f"constraint {constraint}"


# rng


def draw(kind: str, low: Any, high: Any, distribution: str = "rng_uniform", seed: int = 0) -> Any:
    shape = of(f"{kind}[20000]")
    ends = [np.array(v, shape.element_type.np) for v in (low, high)]
    module = module_of("rng", *map(shape_of, ends), shape=shape, distribution=distribution)
    return HloEvaluator(seed=seed).run(module, *ends)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_uniform_floats_fill_a_half_open_interval(kind: str) -> None:
    got = draw(kind, -1, 3).astype(np.float64)
    assert got.min() >= -1 and got.max() < 3
    assert abs(got.mean() - 1) < 0.05 and abs(got.var() - 16 / 12) < 0.05


@pytest.mark.parametrize("kind", ["s8", "s32", "u32", "s64", "u64"])
def test_uniform_integers_leave_the_end_out(kind: str) -> None:
    low = -3 if kind[0] == "s" else 2
    assert sorted(set(draw(kind, low, low + 5).tolist())) == list(range(low, low + 5))


def test_uniform_integers_over_the_whole_range() -> None:
    got = draw("s64", -(2**63), 2**63 - 1)
    assert got.min() < -(2**62) and got.max() > 2**62


def test_uniform_integers_past_their_largest() -> None:
    drawn = draw("s32", 0, -1)
    assert (drawn < 0).any()
    assert (drawn > 2**20).any()
    assert (draw("s32", 5, 5) == 5).all()


def test_uniform_pred() -> None:
    assert 0.4 < draw("pred", False, True).mean() < 0.6


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
def test_normal(kind: str) -> None:
    got = draw(kind, 2, 3, "rng_normal").astype(np.float64)
    assert abs(got.mean() - 2) < 0.1 and abs(got.std() - 3) < 0.1


def test_numbers_follow_from_the_seed() -> None:
    np.testing.assert_array_equal(draw("f32", 0, 1, seed=5), draw("f32", 0, 1, seed=5))
    assert (draw("f32", 0, 1, seed=5) != draw("f32", 0, 1, seed=6)).any()


@pytest.mark.parametrize(
    ("constraint", "operands", "to", "distribution"),
    [
        ("rng_c1", ("f32[]",), "f32[4]", "rng_uniform"),
        ("rng_c1", ("f32[1]", "f32[]"), "f32[4]", "rng_uniform"),
        ("rng_c1", ("f32[]", "f32[]"), "f64[4]", "rng_uniform"),
        ("rng_c2", ("f32[]", "f32[]"), "f32[4]", "rng_other"),
        ("rng_c2", ("s32[]", "s32[]"), "s32[4]", "rng_normal"),
        ("rng_c2", ("c64[]", "c64[]"), "c64[4]", "rng_uniform"),
    ],
)
def test_rng_rejects(
    constraint: str, operands: tuple[str, ...], to: str, distribution: str
) -> None:
    assert_rejected(constraint, "rng", *operands, to=to, distribution=distribution)


# rng-get-and-update-state


def test_the_counter_gives_its_value_before_the_update() -> None:
    b = HloBuilder("two")
    first = b.op("rng-get-and-update-state", delta=3)
    second = b.op("rng-get-and-update-state", delta=3)
    module = b.module(b.op("tuple", first, second))
    first_value, second_value = HloEvaluator(seed=2**64 - 1).run(module)
    assert first_value.tolist() == [2**64 - 1, 0] and second_value.tolist() == [2, 1]


def test_the_counter_is_u64_2() -> None:
    assert_rejected("rng_get_and_update_state_c1", "rng-get-and-update-state", to="u32[2]", delta=1)
