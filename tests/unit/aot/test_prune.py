import warnings
from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.aot.prune import prune
from xladev.aot.selection import Binding, Feed, Fetch, Selection, parse_binding
from xladev.errors import ArgumentError, FileError, XladevError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import verify

TEXT = """
HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }

ENTRY e {
  x.1 = f32[2] parameter(0)
  w.2 = f32[2] parameter(1)
  unused.3 = f32[3] parameter(2)
  product = f32[2] multiply(x.1, w.2)
  rate = f32[] constant(0.5)
  rates = f32[2] broadcast(rate), dimensions={}
  step = f32[2] multiply(product, rates)
  new_w = f32[2] subtract(w.2, step)
  pair = (f32[2], f32[2]) tuple(product, new_w)
  ROOT all = (f32[2], f32[2], (f32[2], f32[2])) tuple(product, new_w, pair)
}
"""
X, W = np.array([1, 2], np.float32), np.array([3, 5], np.float32)


def module() -> HloModule:
    return xladev.parse(TEXT)


def select(
    *fetches: str, feeds: tuple[str, ...] = (), constants: dict[str, object] | None = None
) -> Selection:
    return Selection(
        tuple(map(Feed, feeds)),
        tuple(map(Fetch, fetches)),
        tuple(Binding(what, value) for what, value in (constants or {}).items()),
    )


def cut(selection: Selection) -> HloModule:
    left = prune(module(), selection).module
    verify(left)
    return left


def names(module: HloModule) -> list[str]:
    return [i.name for i in module.entry.instructions]


def run(module: HloModule, *arguments: object) -> object:
    return HloEvaluator().run(module, *arguments)


def test_without_a_selection_nothing_changes() -> None:
    given = module()
    assert prune(given, Selection()).module is given


def test_a_fetch_keeps_what_it_needs() -> None:
    left = cut(select("product"))
    assert names(left) == ["x.1", "w.2", "product"]
    np.testing.assert_array_equal(run(left, X, W), X * W)


def test_results_are_fetched_by_index_inside_tuples_too() -> None:
    left = cut(select("2.1", "0"))
    new, product = run(left, X, W)  # type: ignore[misc]
    np.testing.assert_array_equal(new, W - X * W * np.float32(0.5))
    np.testing.assert_array_equal(product, X * W)


def test_feeding_an_instruction_prunes_what_it_was_computed_from() -> None:
    pruned = prune(module(), select("new_w", feeds=("product",)))
    assert [i.name for i, _ in pruned.arguments] == ["product", "w.2"]
    np.testing.assert_array_equal(run(pruned.module, X, W), W - X * np.float32(0.5))


def test_a_constant_may_be_fed() -> None:
    left = cut(select("new_w", feeds=("rate",)))
    rate = np.array(2, np.float32)
    np.testing.assert_array_equal(run(left, rate, X, W), W - X * W * rate)


def test_feeds_come_first_and_in_order() -> None:
    pruned = prune(module(), select(feeds=("2", "w.2")))
    assert [i.name for i, _ in pruned.arguments] == ["unused.3", "w.2", "x.1"]
    verify(pruned.module)


def test_a_bound_parameter_is_no_argument_any_more() -> None:
    left = cut(select("product", constants={"w.2": [3.0, 5.0]}))
    assert len(left.entry.parameters) == 1
    np.testing.assert_array_equal(run(left, X), X * W)


def test_one_number_fills_an_array() -> None:
    left = cut(select("product", constants={"1": 2}))
    np.testing.assert_array_equal(run(left, X), X * 2)


def test_aliases_follow_their_result_and_parameter() -> None:
    (alias,) = cut(select("0", "1", feeds=("w.2", "x.1"))).header.aliases
    assert (alias.output_index, alias.parameter) == ((1,), 0)
    (alias,) = cut(select("1")).header.aliases
    assert (alias.output_index, alias.parameter) == ((), 1)


def test_aliases_go_with_what_they_join() -> None:
    assert cut(select("0")).header.aliases == ()
    assert cut(select("1", constants={"w.2": 1})).header.aliases == ()


BAD: dict[str, tuple[Selection, str]] = {
    "no such instruction": (select("produkt"), "did you mean product"),
    "nothing like it": (select("zzz"), "xladev convert"),
    "no parameter like it": (select(feeds=("zzz",)), "parameters are x.1"),
    "no such parameter": (select(feeds=("7",)), "has 3 parameters"),
    "no such result": (select("5"), "no such part"),
    "not inside a tuple": (select("0.0"), "no such part"),
    "fed twice": (select(feeds=("x.1", "0")), "fed or bound twice"),
    "fed and bound": (select(feeds=("x.1",), constants={"0": 1}), "both fed and bound"),
    "too many numbers": (select(constants={"w.2": [1, 2, 3]}), "not of sizes"),
    "no number": (select(constants={"w.2": {"a": 1}}), "cannot be bound"),
    "ragged": (select(constants={"w.2": [[1], [1, 2]]}), "cannot be bound"),
    "out of range": (select(constants={"w.2": 1e60}), "out of the range"),
    "no array": (select(constants={"pair": 1}), "only arrays"),
    "no file": (select(constants={"w.2": "missing.npy"}), "missing.npy"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused(case: str) -> None:
    selection, message = BAD[case]
    with pytest.raises(XladevError) as caught:
        prune(module(), selection)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("s4", 8),
        ("u4", 16),
        ("u4", -1),
        ("pred", 2),
        ("f16", 100000),
        ("f8e4m3fn", 1000),
        ("f4e2m1fn", 8),
    ],
)
def test_integers_that_a_narrow_type_does_not_hold_are_refused(dtype: str, value: int) -> None:
    narrow = xladev.parse(f"ENTRY e {{ x = {dtype}[2] parameter(0)  ROOT c = {dtype}[2] copy(x) }}")
    with pytest.raises(ArgumentError, match=f"out of the range of {dtype}"):
        prune(narrow, select(constants={"x": [0, value]}))
    left = prune(narrow, select(constants={"x": [0, 1]})).module
    assert np.asarray(run(left)).astype(int).tolist() == [0, 1]


def test_what_is_in_a_called_computation_is_named_so() -> None:
    called = xladev.parse(
        """
        inner { p = f32[] parameter(0)  ROOT hidden = f32[] negate(p) }
        ENTRY e { x = f32[] parameter(0)  ROOT c = f32[] call(x), to_apply=inner }"""
    )
    with pytest.raises(ArgumentError, match="in computation inner"):
        prune(called, select("hidden"))


def test_constants_are_read_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", W)
    np.savez(tmp_path / "all.npz", w=W, other=X)
    for value in (tmp_path / "w.npy", f"{tmp_path}/all.npz:w"):
        left = cut(select("product", constants={"w.2": str(value)}))
        np.testing.assert_array_equal(run(left, X), X * W)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", W.astype(np.float64))
    np.savez(tmp_path / "all.npz", other=X)
    (tmp_path / "text.npy").write_text("no array")
    for name, message in (
        ("wide.npy", "f32[2], not float64"),
        ("all.npz:w", "has the arrays other"),
        ("all.npz", "has the arrays other"),
        ("text.npy", "no .npy or .npz file"),
    ):
        with pytest.raises(ArgumentError) as caught:
            prune(module(), select(constants={"w.2": f"{tmp_path}/{name}"}))
        assert message in str(caught.value)
    with pytest.raises(FileError):
        prune(module(), select(constants={"w.2": f"{tmp_path}"}))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", w=W, o=np.array([{}], dtype=object))
    whole = (tmp_path / "all.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-30])
    at = whole.index(W.tobytes())
    (tmp_path / "bit.npz").write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    huge = b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(118)
    for name, header in (("huge.npy", huge), ("code.npy", b"(" * 118)):
        (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00v\x00" + header)
    for name in ("all.npz:o", "cut.npz:w", "bit.npz:w", "huge.npy", "code.npy"):
        with pytest.raises(ArgumentError, match="cannot be bound"):
            prune(module(), select(constants={"w.2": f"{tmp_path}/{name}"}))


def test_numbers_longer_than_python_reads() -> None:
    for selection in (select("9" * 5000), select(constants={"9" * 5000: 1})):
        with pytest.raises(ArgumentError):
            prune(module(), selection)
    assert parse_binding(f"w.2={'[' * 100_000}").what == "w.2"


def test_a_number_out_of_range_is_said_once() -> None:
    with warnings.catch_warnings(), pytest.raises(ArgumentError, match="out of the range"):
        warnings.simplefilter("error")
        prune(module(), select(constants={"w.2": 1e39}))


def test_bits_of_bfloat16_are_taken_from_unsigned_integers(tmp_path: Path) -> None:
    narrow = xladev.parse("ENTRY e { x = bf16[2] parameter(0)  ROOT n = bf16[2] negate(x) }")
    np.save(tmp_path / "x.npy", np.array([0x3F80, 0x4000], np.uint16))
    left = prune(narrow, select(constants={"x": f"{tmp_path}/x.npy"})).module
    assert np.asarray(run(left)).tolist() == [-1, -2]


def test_a_mask_is_not_dropped_silently() -> None:
    masked = np.ma.masked_array(np.zeros((2, 1000), np.float32), True)
    with pytest.raises(ArgumentError, match="it is masked"):
        prune(module(), select(constants={"w.2": masked}))
