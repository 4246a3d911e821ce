"""What a user sees: loading, compiling, arguments, donation, errors, several devices, threads."""

import contextlib
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import xladev
from tests.unit.compiler.sample_programs import LOOP_AND_BRANCH, loop_and_branch_arguments
from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev.compiler.options import CompileOptions
from xladev.errors import (
    ArgumentError,
    DeviceError,
    ExecutionError,
    OptionError,
    ParseError,
    UnsupportedError,
    XladevError,
)
from xladev.hlo.proto import write_module
from xladev.hlo.text import parse_module
from xladev.runtime.registry import Registry, using_registry

ADD = """
HloModule plus
ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT r = f32[2,3] add(x, y)
}
"""
TWO_AND_ONE = np.full((2, 3), 2, np.float32), np.ones((2, 3), np.float32)


@pytest.fixture(params=["interpreter", "split", "split and asynchronous"])
def platform(request):
    """The interpreter, or a device that leaves every sine, add and while to the host."""
    if request.param == "interpreter":
        with subset_registry(Subset(lambda i: False)):
            yield "interpreter"
        return
    refused = ("sine", "add", "while", "all-reduce")
    subset = Subset(lambda i: i.opcode not in refused, asynchronous="asyn" in request.param)
    with subset_registry(subset):
        yield "subset"


# Loading


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xladev.load(ADD), "xladev.parse"),
        (lambda: xladev.load([1]), "list cannot be loaded"),
        (lambda: xladev.compile(None), "NoneType cannot be loaded"),
        (lambda: xladev.load("a\0b"), "cannot read"),
        (lambda: xladev.parse(ADD.encode()), "not bytes"),
        (lambda: xladev.compile(ADD.encode(), 5), "5 is no device name"),
        (lambda: xladev.compile(ADD.encode(), None, {"fusion": False}), "options are dict"),
    ],
)
def test_arguments_of_another_kind_are_refused_with_what_is_wanted(call, message):
    with pytest.raises(XladevError, match=message):
        call()


def test_load_takes_paths_and_contents_of_both_kinds(tmp_path: Path):
    module = parse_module(ADD)
    (tmp_path / "a").write_text(ADD)
    (tmp_path / "b").write_bytes(write_module(module))
    data = write_module(module)
    for source in (tmp_path / "a", str(tmp_path / "b"), ADD.encode(), data, bytearray(data)):
        assert xladev.load(source) == module


def test_load_of_a_file_that_is_not_there_or_is_no_hlo(tmp_path: Path):
    with pytest.raises(XladevError, match="cannot read"):
        xladev.load(tmp_path / "missing.pb")
    with pytest.raises(ParseError):
        xladev.load(b"once upon a time")
    with pytest.raises(XladevError):
        xladev.load(b"\x00\x01\x02")


def test_compile_takes_what_load_takes(tmp_path: Path):
    path = tmp_path / "plus.hlo"
    path.write_text(ADD)
    got = xladev.compile(path, "interpreter")(*TWO_AND_ONE)
    np.testing.assert_array_equal(got, np.full((2, 3), 3, np.float32))


def test_devices_lists_what_there_is():
    with subset_registry(Subset(lambda i: True, device_count=3)):
        assert [d.name for d in xladev.devices("subset")] == ["subset:0", "subset:1", "subset:2"]
        assert "interpreter:0" in [d.name for d in xladev.devices()]


def test_the_platform_may_be_a_device_or_nothing():
    with subset_registry(Subset(lambda i: True, device_count=2)):
        assert xladev.compile(parse_module(ADD), "subset:1").devices[0].name == "subset:1"
        assert xladev.compile(parse_module(ADD)).devices[0].platform == "subset"
        with pytest.raises(DeviceError):
            xladev.compile(parse_module(ADD), "subset:2")


# Arguments and results


def test_results_are_nested_as_the_program_says(platform):
    result = xladev.compile(parse_module(LOOP_AND_BRANCH), platform)(*loop_and_branch_arguments())
    assert [type(part) for part in result] == [
        tuple, type(result[1]), tuple, type(result[1]), type(result[1])
    ]  # fmt: skip
    assert result[1].shape == (2, 3) and result[2][1].dtype == np.int32


def test_tokens_are_none(platform):
    text = """
HloModule tokens
ENTRY main {
  x = f32[] parameter(0)
  t = token[] after-all()
  s = f32[] sine(x)
  ROOT r = (f32[], token[]) tuple(s, t)
}
"""
    value, token = xladev.compile(parse_module(text), platform)(np.float32(0))
    assert float(value) == 0 and token is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TWO_AND_ONE[0],), "takes 2 arguments, not 1"),
        ((TWO_AND_ONE[0], np.ones((3, 2), np.float32)), "parameter 1 of plus"),
        ((np.ones((2, 3)), TWO_AND_ONE[1]), r"parameter 0 of plus is float64\[2, 3\]"),
    ],
)
def test_wrong_arguments_name_the_parameter(platform, arguments, message):
    executable = xladev.compile(parse_module(ADD), platform)
    with pytest.raises(ArgumentError, match=message):
        executable(*arguments)
    assert float(executable(*TWO_AND_ONE).numpy()[0, 0]) == 3


def test_a_tuple_parameter_wants_a_tuple(platform):
    executable = xladev.compile(parse_module(LOOP_AND_BRANCH), platform)
    x, (row, _), which = loop_and_branch_arguments()
    with pytest.raises(ArgumentError, match="no tuple of 2") as caught:
        executable(x, (row,), which)
    assert "parameter 1 of loop_and_branch" in str(caught.value)


def test_results_feed_the_next_call(platform):
    executable = xladev.compile(parse_module(ADD), platform)
    x = executable(*TWO_AND_ONE)
    for _ in range(3):
        x = executable(x, TWO_AND_ONE[1])
    np.testing.assert_array_equal(x.numpy(), np.full((2, 3), 6, np.float32))


def test_callers_arrays_are_never_written(platform):
    x, y = (a.copy() for a in TWO_AND_ONE)
    executable = xladev.compile(parse_module(ADD), platform)
    executable(x, y).block_until_ready()
    assert (x == 2).all() and (y == 1).all()


def test_a_result_that_is_a_parameter_is_a_copy(platform):
    text = "HloModule same\nENTRY main { x = f32[3] parameter(0)\n ROOT r = f32[3] copy(x) }"
    through = "HloModule same\nENTRY main { ROOT x = f32[3] parameter(0) }"
    for program in (text, through):
        x = np.zeros(3, np.float32)
        result = xladev.compile(parse_module(program), platform)(x)
        result.block_until_ready()
        x[:] = 7
        assert (result.numpy() == 0).all()


def test_the_same_result_twice_is_two_arrays(platform):
    text = """
HloModule twice
ENTRY main {
  x = f32[3] parameter(0)
  s = f32[3] sine(x)
  c = f32[3] constant({1,2,3})
  ROOT r = (f32[3], f32[3], f32[3], f32[3]) tuple(s, s, c, c)
}
"""
    executable = xladev.compile(parse_module(text), platform)
    first, second, third, fourth = executable(np.ones(3, np.float32))
    assert first.buffer is not second.buffer and third.buffer is not fourth.buffer
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    np.testing.assert_array_equal(fourth.numpy(), np.array([1, 2, 3], np.float32))


def test_narrow_and_complex_types_pass(platform):
    text = """
HloModule narrow
ENTRY main {
  a = bf16[3] parameter(0)
  b = s4[3] parameter(1)
  c = c64[] parameter(2)
  d = pred[2] parameter(3)
  e = bf16[3] add(a, a)
  f = s4[3] add(b, b)
  ROOT r = (bf16[3], s4[3], c64[], pred[2]) tuple(e, f, c, d)
}
"""
    a = np.array([1.5, -2, 0.25], ml_dtypes.bfloat16)
    b = np.array([1, -3, 2], ml_dtypes.int4)
    got = xladev.compile(parse_module(text), platform)(
        a, b, np.complex64(1 + 2j), np.array([True, False])
    )
    np.testing.assert_array_equal(got[0].numpy(), a + a)
    np.testing.assert_array_equal(got[1].numpy().astype(int), [2, -6, 4])
    assert got[2].numpy() == np.complex64(1 + 2j) and got[3].numpy().tolist() == [True, False]


def test_zero_sized_arrays_pass(platform):
    text = """
HloModule empty
ENTRY main {
  x = f32[0,3] parameter(0)
  s = f32[0,3] sine(x)
  ROOT r = f32[0,3] add(s, s)
}
"""
    assert xladev.compile(parse_module(text), platform)(np.ones((0, 3), np.float32)).shape == (0, 3)


def test_host_memory_needs_no_copies():
    with subset_registry(Subset(lambda i: False)):
        executable = xladev.compile(parse_module(ADD), "interpreter")
        from xladev.instrument import collect_counters

        with collect_counters() as counts:
            x = np.ones((2, 3), np.float32)
            value = executable(x, x).numpy()
        assert not counts["runtime.nbytes_to_device"] and not counts["runtime.nbytes_to_host"]
        assert not value.flags.writeable and (value == 2).all()


# Donation

DONATES = """
HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] add(x, y)
  m = f32[4] multiply(x, y)
  ROOT r = (f32[4], f32[4]) tuple(s, m)
}
"""


@pytest.mark.parametrize("donate", [True, (0,), [0]])
def test_donated_arrays_are_gone(platform, donate):
    executable = xladev.compile(parse_module(DONATES), platform)
    y = np.arange(4, dtype=np.float32)
    x, _ = executable(y, y)
    total, _ = executable(x, y, donate=donate)
    np.testing.assert_array_equal(total.numpy(), y * 3)
    assert x.is_deleted
    with pytest.raises(ArgumentError, match="donated to step"):
        x.numpy()


def test_nothing_is_donated_unless_asked(platform):
    executable = xladev.compile(parse_module(DONATES), platform)
    y = np.arange(4, dtype=np.float32)
    x, _ = executable(y, y)
    executable(x, y)
    np.testing.assert_array_equal(x.numpy(), y * 2)


def test_donating_a_parameter_that_is_not_there(platform):
    executable = xladev.compile(parse_module(DONATES), platform)
    y = np.arange(4, dtype=np.float32)
    with pytest.raises(ArgumentError, match=r"no parameters \[5\] to donate"):
        executable(y, y, donate=(5,))


def test_devices_do_not_share_a_donated_host_array():
    text = DONATES.replace("HloModule step", "HloModule step, replica_count=3")
    executable = xladev.compile(parse_module(text), "cpu")
    memory = np.zeros(8 + 1, np.float32)
    x = memory[(-memory.ctypes.data // 4) % 4 :][:4]
    rows = executable.run_on_devices([[x, np.full(4, i, np.float32)] for i in range(3)], donate=[0])
    for i, (total, _) in enumerate(rows):
        np.testing.assert_array_equal(total.numpy(), np.full(4, i))


# Errors belong to values


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("opcode", ["negate", "sine"])
def test_a_failed_launch_poisons_what_depends_on_it(asynchronous, opcode):
    text = ADD.replace("add(x, y)", "add(s, y)").replace("ROOT", f"s = f32[2,3] {opcode}(x)\nROOT")
    subset = Subset(lambda i: i.opcode != "add", asynchronous, fail_on=opcode)
    with subset_registry(subset):
        as_written = CompileOptions(optimization_level=0)  # or -x + y becomes y - x
        failing = xladev.compile(parse_module(text), "subset", as_written)
        good = xladev.compile(parse_module(ADD), "subset")
        bad = failing(*TWO_AND_ONE)
        worse = good(bad, TWO_AND_ONE[1])
        for array in (bad, worse, bad):
            with pytest.raises(ExecutionError, match=f"cannot {opcode} today"):
                array.numpy()
        np.testing.assert_array_equal(good(*TWO_AND_ONE).numpy(), np.full((2, 3), 3, np.float32))


# Several devices

REDUCE = """
HloModule reduce, replica_count={replicas}, num_partitions={partitions}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  x = f32[2] parameter(0)
  s = f32[2] sine(x)
  sum = f32[2] all-reduce(s), channel_id=1, use_global_device_ids=true,
    replica_groups={{{{0,2}},{{1,3}}}}, to_apply=add
  r = u32[] replica-id()
  p = u32[] partition-id()
  ROOT out = (f32[2], u32[], u32[]) tuple(sum, r, p)
}}
"""


@pytest.mark.parametrize(("replicas", "partitions"), [(4, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_device_has_its_own_arguments(replicas, partitions, asynchronous):
    text = REDUCE.format(replicas=replicas, partitions=partitions)
    subset = Subset(lambda i: i.opcode != "sine", asynchronous, device_count=4)
    subset.supported = lambda i: i.opcode not in ("sine", "all-reduce")
    with subset_registry(subset):
        executable = xladev.compile(parse_module(text), "subset")
        arguments = [[np.full(2, i, np.float32)] for i in range(4)]
        rows = executable.run_on_devices(arguments)
        for i, (total, replica, partition) in enumerate(rows):
            want = np.sin(np.float32(i)) + np.sin(np.float32((i + 2) % 4))
            np.testing.assert_allclose(total.numpy(), np.full(2, want), rtol=1e-6)
            assert (int(replica), int(partition)) == divmod(i, partitions)


def test_a_failure_on_one_device_ends_the_others():
    text = REDUCE.format(replicas=4, partitions=1)
    subset = Subset(lambda i: i.opcode != "all-reduce", device_count=4, fail_on="sine")
    with subset_registry(subset):
        executable = xladev.compile(parse_module(text), "subset")
        rows = executable.run_on_devices([[np.ones(2, np.float32)]] * 4)
        for row in rows:
            with pytest.raises(ExecutionError):
                row[0].numpy()


def test_a_program_gets_the_virtual_devices_it_wants():
    text = REDUCE.format(replicas=4, partitions=1)
    with subset_registry(Subset(lambda i: True)):
        executable = xladev.compile(parse_module(text), "interpreter")
    assert [d.ordinal for d in executable.devices] == [0, 1, 2, 3]


def test_a_fixed_number_of_devices_is_kept(monkeypatch):
    monkeypatch.setenv("XLADEV_INTERPRETER_DEVICES", "2")
    text = REDUCE.format(replicas=4, partitions=1)
    with (
        subset_registry(Subset(lambda i: True)),
        pytest.raises(DeviceError, match="runs on 4 devices") as caught,
    ):
        xladev.compile(parse_module(text), "interpreter")
    assert "XLADEV_INTERPRETER_DEVICES" in str(caught.value)


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_a_device_that_is_named_is_there(platform, monkeypatch):
    monkeypatch.delenv(f"XLADEV_{platform.upper()}_DEVICES", raising=False)
    program = parse_module(ADD)
    with using_registry(Registry()):
        for ask in (lambda name: xladev.compile(program, name), xladev.devices):
            with pytest.raises(DeviceError, match=f"there is no device {platform}:7"):
                ask(f"{platform}:7")
        assert len(xladev.devices(platform)) == 1
        assert xladev.compile(program, f"{platform}:0").devices == xladev.devices(f"{platform}:0")


def test_device_assignment_chooses_devices():
    with subset_registry(Subset(lambda i: True, device_count=4)):
        options = CompileOptions(num_replicas=2, device_assignment=((3,), (1,)))
        executable = xladev.compile(parse_module(ADD), "subset", options)
        assert [d.name for d in executable.devices] == ["subset:3", "subset:1"]


def test_arguments_for_another_number_of_devices(platform):
    executable = xladev.compile(parse_module(ADD), platform)
    with pytest.raises(ArgumentError, match="runs on 1 device"):
        executable.run_on_devices([TWO_AND_ONE, TWO_AND_ONE])


def test_an_unknown_fallback_is_refused(monkeypatch):
    monkeypatch.setenv("XLADEV_FALLBACK", "magic")
    with subset_registry(Subset(lambda i: i.opcode != "add")), pytest.raises(OptionError):
        xladev.compile(parse_module(ADD), "subset")


# Threads


def test_compile_and_run_from_eight_threads_at_once(platform):
    module = parse_module(LOOP_AND_BRANCH)
    arguments = loop_and_branch_arguments()
    shared = xladev.compile(module, platform)
    want = shared(*arguments)[1].numpy().tobytes()
    problems: list[object] = []

    def work() -> None:
        try:
            own = xladev.compile(module, platform)
            for executable in (own, shared) * 5:
                got = executable(*arguments)[1].numpy().tobytes()
                if got != want:
                    problems.append("another result")
        except BaseException as e:  # noqa: BLE001
            problems.append(e)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == [] and not any(thread.is_alive() for thread in threads)


# Bounded dynamic shapes

DYNAMIC = """
HloModule dynamic
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
condition { s = (s32[], f32[<=8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)  ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[<=8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)  next = s32[] add(i, one)
  x = f32[<=8] get-tuple-element(s), index=1  y = f32[<=8] add(x, x)
  ROOT r = (s32[], f32[<=8]) tuple(next, y) }
ENTRY main {
  x = f32[<=8] parameter(0)
  n = s32[] parameter(1)
  zero = f32[] constant(0)
  i = s32[] constant(0)
  t = (s32[], f32[<=8]) tuple(i, x)
  w = (s32[], f32[<=8]) while(t), condition=condition, body=body
  s = f32[<=8] get-tuple-element(w), index=1
  total = f32[] reduce(s, zero), dimensions={0}, to_apply=add
  six = f32[6] iota(), iota_dimension=0
  d = f32[<=6] set-dimension-size(six, n), dimensions={0}
  e = f32[<=6] negate(d)
  g = s32[] get-dimension-size(d), dimensions={0}
  ROOT r = (f32[<=8], f32[], f32[<=6], s32[]) tuple(s, total, e, g)
}
"""


@pytest.mark.parametrize("name", ["interpreter", "cpu", "subset", "subset without sizes"])
def test_only_the_live_part_of_dynamic_arrays_counts(name):
    module = parse_module(DYNAMIC)
    x = np.arange(5, dtype=np.float32)
    refused = ("get-dimension-size", "negate") if "without" in name else ("while", "reduce")
    subset = Subset(lambda i: i.opcode not in refused, asynchronous=True)
    with subset_registry(subset) if "subset" in name else contextlib.nullcontext():
        executable = xladev.compile(module, name.split()[0])
        scaled, total, cut, size = executable(x, np.int32(3))
        np.testing.assert_array_equal(scaled.numpy(), x * 4)
        np.testing.assert_array_equal(cut.numpy(), -np.arange(3, dtype=np.float32))
        assert (float(total), int(size), scaled.shape) == (40.0, 3, (5,))
        again, *_ = executable(scaled, np.int32(0))
        np.testing.assert_array_equal(again.numpy(), x * 16)
        with pytest.raises(ArgumentError, match="parameter 0 of dynamic"):
            executable(np.ones(9, np.float32), np.int32(3))


def test_errors_of_compiling_have_a_place(monkeypatch):
    def refuse(*_):
        raise UnsupportedError("this target is one of f32")

    monkeypatch.setattr("xladev.client.compile_module", refuse)
    with pytest.raises(UnsupportedError) as info:
        xladev.compile(parse_module(ADD), "interpreter")
    assert info.value.where == "module plus"
