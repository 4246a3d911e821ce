import logging
import random

import numpy as np
import pytest

from tests.unit.compiler.sample_programs import (
    CROSSING,
    LOOP_AND_BRANCH,
    loop_and_branch_arguments,
)
from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.compiler.program.program_file import program_from_bytes, program_to_bytes
from xladev.compiler.program.thunks import RunExecutable, Transfer, While
from xladev.errors import CompileError, LiteralError, OutOfMemoryError, UnsupportedError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.opset import OPSET
from xladev.hlo.text import parse_module
from xladev.testing.comparison import difference, expect_close, expect_eq

AS_WRITTEN = CompileOptions(optimization_level=0)


def leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


def agree(got, want, check=expect_eq):
    problems = [difference(check, g, w) for g, w in zip(leaves(got), leaves(want), strict=True)]
    return [p for p in problems if p]


def supports_opcodes(opcodes):
    return lambda instruction: instruction.opcode in opcodes


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("round", range(12))
def test_any_subset_gives_the_evaluators_results(round, host, asynchronous, seed):
    chance = random.Random(f"{seed} {round}")
    chosen = {name for name in OPSET if chance.random() < chance.choice([0.2, 0.5, 0.9])}
    module = parse_module(LOOP_AND_BRANCH)
    arguments = loop_and_branch_arguments(which=round % 3 - 1)
    want = HloEvaluator().run(module, *arguments)
    subset = Subset(supports_opcodes(chosen), asynchronous)
    with subset_registry(subset, host=host):
        for options in (AS_WRITTEN, CompileOptions(), CompileOptions(op_by_op=True)):
            executable = client.compile(module, "subset", options)
            for _ in range(2):
                found = executable(*arguments)  # an expanded sum adds in another order
                assert agree(found, want, expect_close) == [], executable.program


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_a_constant_whose_value_is_not_there_is_refused(platform):
    text = """HloModule m
ENTRY e { x = f32[64] parameter(0)
  c = f32[64] constant({...})
  ROOT r = f32[64] add(x, c) }"""
    for options in (AS_WRITTEN, CompileOptions()):
        with pytest.raises(LiteralError, match="elided") as caught:
            client.compile(parse_module(text), platform, options)
        assert "<c = f32[64]" in str(caught.value)


def test_supported_whole_is_one_executable_of_the_module_itself():
    subset = Subset(lambda i: True)
    with subset_registry(subset):
        module = parse_module(LOOP_AND_BRANCH)
        program = client.compile(module, "subset", AS_WRITTEN).program
    assert [len(p.thunks) for p in program.procedures] == [1]
    assert program.fallbacks == () and program.platforms == ("subset",)


def test_one_unsupported_op_in_a_loop_leaves_the_rest_of_it_on_the_device():
    subset = Subset(lambda i: i.opcode != "sine")
    with subset_registry(subset):
        program = client.compile(parse_module(LOOP_AND_BRANCH), "subset", AS_WRITTEN).program
    body = next(p for p in program.procedures if p.name == "body")
    platforms = [
        program.executables[t.executable].signature.platform
        for t in body.thunks
        if isinstance(t, RunExecutable)
    ]
    assert platforms.count("interpreter") == 1 and "subset" in platforms
    assert any(isinstance(t, While) for t in program.entry.thunks)
    assert [f.opcode for f in program.fallbacks] == ["sine"]
    assert dict(program.instruction_counts)["interpreter"] == 1
    work = dict(program.work_counts)
    assert (work["interpreter"], work.keys()) == (6, {"interpreter", "subset"})


def test_a_claimed_loop_whose_body_has_a_refused_op_is_split():
    """The backend says yes to every while, whatever is in it."""
    subset = Subset(lambda i: i.opcode in ("while", "add"))
    with subset_registry(subset):
        module = parse_module(LOOP_AND_BRANCH)
        executable = client.compile(module, "subset", AS_WRITTEN)
        arguments = loop_and_branch_arguments()
        assert agree(executable(*arguments), HloEvaluator().run(module, *arguments)) == []
    assert any(isinstance(t, While) for t in executable.program.entry.thunks)


def test_a_loop_that_the_host_runs_whole_stays_on_the_host():
    subset = Subset(lambda i: i.opcode in ("transpose", "multiply"))
    with subset_registry(subset):
        program = client.compile(parse_module(LOOP_AND_BRANCH), "subset", AS_WRITTEN).program
    body = next(p for p in program.procedures if p.name == "body")
    assert not any(isinstance(t, Transfer) for t in body.thunks)
    host = program.platforms.index("interpreter")
    assert {body.slots[s].platform for s in body.parameters} == {host}


@pytest.mark.parametrize("refused", ["sine", "cosine", "add", "multiply"])
def test_regions_are_few_and_each_is_of_one_platform(refused):
    subset = Subset(lambda i: i.opcode != refused)
    with subset_registry(subset):
        module = parse_module(CROSSING)
        executable = client.compile(module, "subset", AS_WRITTEN)
        arguments = [np.arange(4, dtype=np.float32), np.ones(4, np.float32)]
        assert agree(executable(*arguments), HloEvaluator().run(module, *arguments)) == []
    regions = {"sine": 4, "cosine": 4, "add": 4, "multiply": 3}
    assert len(executable.program.executables) == regions[refused]


def test_without_a_host_platform_the_evaluator_runs_what_is_refused():
    subset = Subset(lambda i: i.opcode != "cosine")
    with subset_registry(subset, host=False):
        executable = client.compile(parse_module(CROSSING), "subset", AS_WRITTEN)
    assert executable.program.platforms == ("subset",)
    assert {f.platform for f in executable.program.fallbacks} == {"evaluator"}


def test_fallback_interpreter_asks_no_host_platform(monkeypatch):
    monkeypatch.setenv("XLADEV_FALLBACK", "interpreter")
    with subset_registry(Subset(lambda i: i.opcode != "cosine")):
        executable = client.compile(parse_module(CROSSING), "subset", AS_WRITTEN)
    assert {f.platform for f in executable.program.fallbacks} == {"evaluator"}


def test_strict_lists_every_fallback_with_its_reason():
    subset = Subset(lambda i: i.opcode not in ("cosine", "multiply"))
    with subset_registry(subset), pytest.raises(UnsupportedError) as caught:
        client.compile(parse_module(CROSSING), "subset", CompileOptions(strict=True))
    text = str(caught.value)
    assert "3 instructions would fall back" in text
    assert text.count("not in the subset") == 3
    assert "r (multiply) runs on interpreter" in text


def test_strict_allows_what_the_sdk_runs():
    subset = Subset(lambda i: i.opcode not in ("while", "conditional", "call"))
    with subset_registry(subset):
        options = CompileOptions(optimization_level=0, strict=True)
        program = client.compile(parse_module(LOOP_AND_BRANCH), "subset", options).program
    assert program.platforms == ("subset",)


def test_strict_from_the_environment(monkeypatch):
    monkeypatch.setenv("XLADEV_STRICT", "1")
    with subset_registry(Subset(lambda i: False)), pytest.raises(UnsupportedError):
        client.compile(parse_module(CROSSING), "subset")


def test_nobody_runs_an_infeed():
    text = """
HloModule feed
ENTRY main {
  token = token[] after-all()
  fed = (f32[2], token[]) infeed(token)
  ROOT out = f32[2] get-tuple-element(fed), index=0
}
"""
    subset = Subset(lambda i: i.opcode != "infeed")
    with (
        subset_registry(subset),
        pytest.raises(UnsupportedError, match="no platform runs infeed") as caught,
    ):
        client.compile(parse_module(text), "subset")
    assert "subset: not in the subset" in str(caught.value)
    assert "reads a host queue" in str(caught.value)


def test_the_devices_attribute_wins_over_support():
    from dataclasses import replace

    from xladev.hlo.rebuild import rebuild

    module = parse_module(CROSSING)
    wanted = {
        i: replace(i, note=replace(i.note, device="interpreter"))
        for i in module.entry.instructions
        if i.opcode == "sine"
    }
    module = replace(module, entry=rebuild(module.entry, wanted))
    with subset_registry(Subset(lambda i: True)):
        program = client.compile(module, "subset", AS_WRITTEN).program
    assert dict(program.instruction_counts) == {"subset": 5, "interpreter": 2}
    assert program.fallbacks == ()


def test_one_info_line_per_compile(caplog):
    subset = Subset(lambda i: i.opcode != "cosine")
    with caplog.at_level(logging.INFO, "xladev.compile"), subset_registry(subset):
        client.compile(parse_module(CROSSING), "subset", AS_WRITTEN)
    (line,) = [r.getMessage() for r in caplog.records if "compiled" in r.getMessage()]
    assert "crossing for subset: 5 instructions on device, 2 on host" in line


@pytest.mark.parametrize("seed_of_subset", range(4))
def test_programs_survive_their_file(seed_of_subset):
    chance = random.Random(seed_of_subset)
    chosen = {name for name in OPSET if chance.random() < 0.5}
    with subset_registry(Subset(supports_opcodes(chosen))):
        executable = client.compile(parse_module(LOOP_AND_BRANCH), "subset", AS_WRITTEN)
        data = program_to_bytes(executable.program)
        again = program_from_bytes(data)
        assert again == executable.program
        assert str(again) == str(executable.program)
        loaded = client.CompiledModule(again, executable.devices)
        arguments = loop_and_branch_arguments()
        assert agree(loaded(*arguments), executable(*arguments)) == []


def nested_calls(depth):
    text = ["HloModule nest", "f0 {\n x = f32[] parameter(0)\n ROOT y = f32[] sine(x)\n}"]
    for n in range(1, depth):
        text.append(
            f"f{n} {{\n x = f32[] parameter(0)\n ROOT y = f32[] call(x), to_apply=f{n - 1}\n}}"
        )
    text.append(
        "ENTRY main {\n x = f32[] parameter(0)\n"
        f" ROOT y = f32[] call(x), to_apply=f{depth - 1}\n}}"
    )
    return parse_module("\n".join(text))


@pytest.mark.parametrize("depth", [90, 5000])
def test_deep_calls_are_inlined_or_refused(depth):
    with subset_registry(Subset(lambda i: i.opcode != "call")):
        executable = client.compile(nested_calls(depth), "subset")
        assert float(executable(np.float32(0))) == 0
        if depth < 100:
            as_written = client.compile(nested_calls(depth), "subset", AS_WRITTEN)
            assert float(as_written(np.float32(0))) == 0
            return
        with pytest.raises(CompileError, match="5001 deep"):
            client.compile(nested_calls(depth), "subset", AS_WRITTEN)


def test_memory_that_the_compiler_itself_lacks(monkeypatch):
    def starving(*_):
        raise MemoryError("512 GiB for an array")

    monkeypatch.setattr("xladev.compiler.compile.prepare", starving)
    with pytest.raises(OutOfMemoryError, match="compiling nest takes more memory") as caught:
        client.compile(nested_calls(3), "cpu")
    assert caught.value.why == "512 GiB for an array"
    assert caught.value.where and caught.value.hint


def test_dumps_go_where_the_options_say(tmp_path):
    with subset_registry(Subset(lambda i: i.opcode not in ("cosine", "call"))):
        options = CompileOptions(dump_to=str(tmp_path), verify_passes=True)
        client.compile(parse_module(LOOP_AND_BRANCH), "subset", options)
    names = {path.name.partition(".")[2] for path in tmp_path.iterdir()}
    assert "loop_and_branch.hlo" in names and "loop_and_branch.program.txt" in names
    assert any("after_call-inliner" in name for name in names)


CUT_OR_KEEP = """
HloModule cut_or_keep
cut { p = f32[2] parameter(0)  n = s32[] constant(1)
      ROOT r = f32[<=2] set-dimension-size(p, n), dimensions={0} }
keep { ROOT q = f32[2] parameter(0) }
ENTRY e { i = s32[] parameter(0)  x = f32[2] parameter(1)
          ROOT c = f32[<=2] conditional(i, x, x), branch_computations={cut, keep} }
"""


def test_branches_of_which_one_is_dynamic():
    values = np.float32([1, 2])
    with subset_registry(Subset(lambda i: False)):
        executable = client.compile(parse_module(CUT_OR_KEEP), "subset")
        assert executable(np.int32(0), values).numpy().tolist() == [1]
        assert executable(np.int32(1), values).numpy().tolist() == [1, 2]


def test_devices_do_not_exchange_dynamic_shapes():
    text = """HloModule m
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ENTRY e { p = f32[<=4] parameter(0)  ROOT r = f32[<=4] all-reduce(p), to_apply=add }"""
    with subset_registry(Subset(lambda i: False)), pytest.raises(UnsupportedError, match="dynamic"):
        client.compile(parse_module(text), "subset")
