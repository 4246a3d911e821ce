"""Options of single platforms: those that are declared, those that are not, near names."""

import pytest

from tests.unit.runtime.null_device import Compiler2, Driver, null_spec
from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.errors import OptionError, PluginError
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.plugins.platform_options import check_platform_options, declared_options
from xladev.runtime.registry import Registry

UNROLL = PlatformOption("unroll", 1, "turns of a loop side by side")
MODE = PlatformOption("mode", "fast", "fast or exact")


class Declaring(Compiler2):
    def platform_options(self):
        return (UNROLL, MODE)


class Broken(Compiler2):
    def platform_options(self):
        raise ValueError("no options today")


class Mistaken(Compiler2):
    def platform_options(self):
        return ["unroll"]


def platforms(**compilers):
    found = Registry(find=lambda: ())
    for name, compiler in compilers.items():
        tier_1 = null_spec(Driver(), 1, name)
        found.register(PlatformSpec(name, tier_1.factory, compiler=compiler))
    return found.platforms()


@pytest.fixture
def known():
    return platforms(npu=Declaring, silent=Compiler2, memory=None)


def check(known, *texts):
    check_platform_options(CompileOptions().with_options(texts), known)


def test_declared_options_and_those_of_platforms_that_declare_nothing_pass(known):
    check(known)
    check(known, "npu.unroll=4", "npu.mode=exact", "silent.anything=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("npu.unrol=4", "platform 'npu' has unroll, mode.*did you mean 'npu.unroll'"),
        ("nup.mode=exact", "no platform 'nup'.*did you mean 'npu.mode'"),
        ("npu.zzz=4", "unknown option 'npu.zzz'.*xladev options"),
        ("memory.unroll=4", "platform 'memory' has no options of its own"),
        ("npu.unroll=many", "npu.unroll is 'many'.*of type int"),
    ],
)
def test_other_options_are_refused_with_near_names(known, text, message):
    with pytest.raises(OptionError, match=f"(?s){message}"):
        check(known, text)


def test_all_that_are_declared_are_listed_though_a_platform_fails():
    found = platforms(npu=Declaring, broken=Broken, silent=Compiler2)
    assert declared_options(found) == {"npu.unroll": UNROLL, "npu.mode": MODE}


@pytest.mark.parametrize("compiler", [Broken, Mistaken])
def test_a_platform_that_cannot_say_is_named(compiler):
    with pytest.raises(PluginError, match=r"bad: Compiler\.platform_options"):
        check(platforms(bad=compiler), "bad.unroll=2")
