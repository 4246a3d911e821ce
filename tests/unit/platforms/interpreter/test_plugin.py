"""The smallest plugin: found by its entry point, correct, with as many devices as asked for."""

import numpy as np
import pytest

from tests.unit.compiler.sample_programs import LOOP_AND_BRANCH, loop_and_branch_arguments
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.errors import FormatError, OptionError, ProtoError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.interpreter.compiler import InterpreterCompiler
from xladev.platforms.interpreter.executor import InterpreterExecutor
from xladev.platforms.interpreter.platform import InterpreterPlatform
from xladev.runtime.registry import Registry, current_registry


def test_it_arrives_through_its_entry_point():
    platform = Registry().platform("interpreter")
    assert platform.spec.priority == 10 and platform.kind == "interpreter"
    assert platform.describe().host_addressable


def test_it_is_never_the_default_where_a_processor_is_supported():
    assert current_registry().platform().spec.priority > 10


@pytest.mark.parametrize(("text", "count"), [(None, 1), ("3", 3), ("1024", 1024)])
def test_it_has_as_many_devices_as_asked_for(monkeypatch, text, count):
    if text is not None:
        monkeypatch.setenv("XLADEV_INTERPRETER_DEVICES", text)
    assert InterpreterPlatform().visible_device_count() == count


@pytest.mark.parametrize("text", ["0", "-1", "many", "1025", "", "1.5"])
def test_a_number_of_devices_that_is_none(monkeypatch, text):
    monkeypatch.setenv("XLADEV_INTERPRETER_DEVICES", text)
    with pytest.raises(OptionError, match="XLADEV_INTERPRETER_DEVICES"):
        InterpreterPlatform().visible_device_count()


@pytest.mark.parametrize("which", [-1, 0, 1, 7])
def test_programs_run_whole(which):
    module = parse_module(LOOP_AND_BRANCH)
    executable = client.compile(module, "interpreter")
    assert executable.program.fallbacks == ()
    arguments = loop_and_branch_arguments(which)
    want = HloEvaluator().run(module, *arguments)
    np.testing.assert_array_equal(executable(*arguments)[3].numpy(), want[3])
    np.testing.assert_array_equal(executable(*arguments)[1].numpy(), want[1])


def test_it_refuses_what_has_no_value_and_what_joins_devices():
    compiler = InterpreterCompiler()
    module = parse_module("""
HloModule refused
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[2] parameter(0)
  s = f32[2] sine(x)
  r = f32[2] all-reduce(s), channel_id=1, to_apply=add
  t = token[] after-all()
  ROOT o = token[] outfeed(r, t)
}
""")
    answers = {i.name: compiler.supports(i, compiler.describe()) for i in module.entry.instructions}
    assert answers["s"] and not answers["r"] and not answers["o"]
    assert "exchanged by the SDK" in answers["r"].reason
    assert "host queue" in answers["o"].reason


def test_damaged_and_foreign_executables_are_refused():
    module = parse_module("HloModule m\nENTRY main { ROOT x = f32[2] parameter(0) }")
    good = InterpreterCompiler().compile(module, CompileOptions())
    from dataclasses import replace

    executor = InterpreterExecutor()
    with pytest.raises(FormatError, match="platform"):
        executor.load(replace(good, signature=replace(good.signature, platform="npu")))
    with pytest.raises(ProtoError):
        executor.load(replace(good, payload=good.payload[:-3]))
