"""CompileOptions: spelling, environment, ranges, JSON, cache key."""

import dataclasses

import pytest

from xladev.compiler.options import OPTION_DOCS, CompileOptions
from xladev.errors import OptionError


def test_every_field_is_documented():
    assert list(OPTION_DOCS) == [f.name for f in dataclasses.fields(CompileOptions)]
    assert all(OPTION_DOCS.values())


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("optimization_level=3", "optimization_level", 3),
        ("--optimization-level=0", "optimization_level", 0),
        ("threads=4", "threads", 4),
        ("strict", "strict", True),
        ("fusion=off", "fusion", False),
        ("deterministic=True", "deterministic", True),
        ("target=sm_90", "target", "sm_90"),
        ("dump_to=/some/dir", "dump_to", "/some/dir"),
        ("dump_filter=a=b", "dump_filter", "a=b"),
    ],
)
def test_options_as_text(text, field, value):
    assert getattr(CompileOptions().with_option(text), field) == value


def test_device_assignment_as_text():
    options = CompileOptions(num_replicas=2, num_partitions=2)
    assert options.with_option("device_assignment=0,1;3,2").device_assignment == ((0, 1), (3, 2))


def test_platform_options():
    options = CompileOptions().with_options(["cpu.vector=16", "cpu.huge", "npu.mode=fast"])
    assert options.extra("cpu", "vector", 8) == 16
    assert options.extra("cpu", "huge", False) is True
    assert options.extra("npu", "mode", "slow") == "fast"
    assert options.extra("npu", "vector", 8) == 8
    with pytest.raises(OptionError, match=r"npu\.mode is 'fast'"):
        options.extra("npu", "mode", 1)
    assert CompileOptions(extras={"a.b": 1}) == CompileOptions().with_option("a.b=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimisation_level=1", "did you mean 'optimization_level'"),
        ("zzz=1", "unknown option 'zzz'"),
        ("threads=many", "option threads cannot be 'many'"),
        ("threads=0", "threads is 0"),
        ("optimization_level=9", "from 0 to 3"),
        ("strict=perhaps", "option strict cannot be 'perhaps'"),
        ("device_assignment=0,1", "need one device each"),
        (".x=1", "platform option '.x'"),
        ("cpu.=1", r"platform option 'cpu\.'"),
        ("", "unknown option ''"),
    ],
)
def test_bad_options_say_what_is_allowed(text, message):
    with pytest.raises(OptionError, match=message):
        CompileOptions().with_option(text)


def test_environment():
    environment = {"XLADEV_FLAGS": "--threads=2 cpu.flag='a b'", "XLADEV_STRICT": "1"}
    options = CompileOptions.from_environment(environment)
    assert (options.threads, options.strict) == (2, True)
    assert options.extra("cpu", "flag", "") == "a b"
    assert CompileOptions.from_environment({}) == CompileOptions()
    with pytest.raises(OptionError, match="cannot be split"):
        CompileOptions.from_environment({"XLADEV_FLAGS": "'open"})


def test_json_round_trip():
    options = CompileOptions(
        num_replicas=2, device_assignment=((0,), (1,)), threads=3, extras={"cpu.x": 1.5}
    )
    assert CompileOptions.from_json(options.to_json()) == options
    with pytest.raises(OptionError, match="unknown option 'nope'"):
        CompileOptions.from_json({"nope": 1})


@pytest.mark.parametrize(
    "fields",
    [{"fusion": "false"}, {"strict": 1}, {"target": 80}, {"dump_filter": None}, {"extras": [1]}],
)  # fmt: skip
def test_values_of_other_types_are_refused(fields):
    with pytest.raises(OptionError, match=next(iter(fields))):
        CompileOptions(**fields)


def test_a_path_may_say_where_dumps_go(tmp_path):
    assert CompileOptions(dump_to=tmp_path).dump_to == str(tmp_path)


def test_options_are_hashable_values():
    a, b = CompileOptions(extras={"b.x": 1, "a.x": 2}), CompileOptions(extras={"a.x": 2, "b.x": 1})
    assert a == b
    assert hash(a) == hash(b)


CHANGES = [
    "optimization_level=1", "num_replicas=2", "num_partitions=2", "device_assignment=3",
    "threads=1", "deterministic", "rng_seed=1", "fusion=0", "op_by_op", "schedule=0",
    "overlap_collectives=0",
    "compilation_level=1", "all_reduce_bucket=7",
    "min_cluster_size=9", "scopes=opcode:dot=products",
    "memory_limit=9", "streams=2", "target=x",
    "devices=npu:0", "placement=dot=npu:1", "soft_placement=0", "strict", "cpu.x=1",
]  # fmt: skip


def test_the_cache_key_depends_on_everything_but_dumps():
    keys = {CompileOptions().with_option(text).cache_key() for text in CHANGES}
    assert len(keys | {CompileOptions().cache_key()}) == len(CHANGES) + 1
    dumped = CompileOptions(dump_to="x", dump_filter="y")
    assert dumped.cache_key() == CompileOptions().cache_key()
    changed = {text.partition("=")[0] for text in CHANGES}
    assert OPTION_DOCS.keys() - changed == {"verify_passes", "dump_to", "dump_filter", "extras"}
