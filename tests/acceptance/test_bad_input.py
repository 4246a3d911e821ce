"""Bad input at a glance: for each kind, a whole error in bounded time, and nothing else broken.

The unit tests of each layer have more of every kind; `tests/fuzz` has what nobody thought of.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from tests.fuzz.campaign import whole_path_worker
from tests.fuzz.whole_path import Answer, answers_of
from tests.unit.compiler.test_limits import tower
from tests.unit.hlo.proto.test_reader import computation, instruction, module
from tests.unit.runtime.null_device import Compiler2, Driver, Platform1, null_spec
from xladev import client
from xladev.errors import XladevError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import F32
from xladev.hlo.ir import HloComputation, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.proto import write_module
from xladev.hlo.proto.encode import encode
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module
from xladev.runtime.hookspecs import ENTRY_POINT_GROUP, PlatformSpec
from xladev.runtime.plugins.loading import installed_plugins
from xladev.runtime.registry import Registry, using_registry
from xladev.testing.worker import Status, Worker

DEEP = 100_000
HUGE = 2**62
LONGEST_S = 20.0
SMALL = """HloModule small
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] add(x, y)
  ROOT r = f32[4] negate(s) }"""
PROTO = write_module(parse_module(SMALL))
X = np.arange(4, dtype=np.float32)


def refused(work: Callable[[], object], code: str, what: str = "") -> XladevError:
    """The error that `work` raises: of that code, with all its parts, soon and not too long."""
    start = time.process_time()
    with pytest.raises(XladevError, match=what or None) as caught:
        work()
    error = caught.value
    assert error.code == code
    assert error.what and error.where and error.why and error.hint
    text = str(error)
    assert text.startswith(f"[{code}] ") and len(text) < 4000
    for label in ("where", "why", "next"):
        assert re.search(rf"^  {label}: ", text, re.MULTILINE), text
    assert time.process_time() - start < LONGEST_S
    return error


def entry(body: str) -> str:
    return f"ENTRY e {{ x = f32[4] parameter(0)\n  ROOT r = {body} }}"


# Files


def test_truncated_protos() -> None:
    """A few bytes at the end may be spared: what they say is said elsewhere too."""
    whole = 0
    for end in range(1, len(PROTO)):
        try:
            client.compile(PROTO[:end], "cpu")
        except XladevError as error:
            refused(lambda end=end: client.compile(PROTO[:end], "cpu"), error.code)
        else:
            whole += 1
    assert whole < 5


def test_protos_with_flipped_bits(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        data = bytearray(PROTO)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            client.compile(bytes(data), "interpreter")
        except XladevError as error:
            refused(lambda data=data: client.compile(bytes(data), "interpreter"), error.code)


@pytest.mark.parametrize(
    "text",
    ["", "HloModule", "HloModule m\nENTRY e {", SMALL[:-1], SMALL.replace("add(", "add("[:-1]),
     SMALL.replace("f32[4] add", "f32[4 add"), SMALL.replace("parameter(1)", "parameter(x)"),
     SMALL + "}", "\x00" * 100, "\ud800", "{" * 1000],
)  # fmt: skip
def test_malformed_text(text: str) -> None:
    refused(lambda: client.load(text.encode("utf-8", "surrogatepass")), code_of_file(text))


def code_of_file(text: str) -> str:
    """Nothing is no program; bytes that are no UTF-8 text are taken for a proto."""
    if not text:
        return "FORMAT"
    return "HLO_PROTO" if "\ud800" in text or "\x00" in text else "HLO_TEXT"


def test_a_file_that_is_not_there() -> None:
    refused(lambda: client.load("nowhere/none.hlo"), "FILE", "cannot read")


# Programs


def test_cycles() -> None:
    loop = computation([instruction("negate", 1, 1)], 1)
    forward = computation(
        [instruction("parameter", 0), instruction("negate", 1, 2), instruction("negate", 2, 1)], 1
    )
    for data in (loop, forward):
        refused(lambda data=data: client.load(module(data)), "HLO_PROTO", "none before")
    called = instruction("call", 1, 0, called_computation_ids=(5,))
    itself = module(computation([instruction("parameter", 0), called], 1, 5), entry=5)
    refused(lambda: client.load(itself), "HLO_PROTO", "computation 5 is called")
    for text, what in (
        ("ENTRY e { a = f32[] negate(b)\n ROOT b = f32[] negate(a) }", "depends on itself"),
        ("a { x = f32[] call(), to_apply=b }\nb { y = f32[] call(), to_apply=a }", "calls itself"),
    ):
        refused(lambda text=text: client.load(text.encode()), "HLO_TEXT", what)


@pytest.mark.parametrize(
    ("body", "code", "what"),
    [
        ("f32[4] add(x)", "HLO_TEXT", "takes 2 operands, not 1"),
        ("f32[4] negate(x, x)", "HLO_TEXT", "takes 1 operand"),
        ("f32[5] negate(x)", "HLO_VERIFY", r"said to be f32\[5\]"),
        ("f32[4] broadcast(x), dimensions={7}", "HLO_SHAPE", ""),
        ("f32[9] reshape(x)", "HLO_SHAPE", ""),
        ("f32[4] slice(x), slice={[0:9]}", "HLO_SHAPE", ""),
        ("f32[4] transpose(x), dimensions={0,0}", "HLO_SHAPE", ""),
        ("f32[] get-tuple-element(x), index=0", "HLO_SHAPE", ""),
        ("s32[4] add(x, x)", "HLO_VERIFY", "said to be"),
    ],
)
def test_wrong_arity_and_shapes(body: str, code: str, what: str) -> None:
    for platform in ("cpu", "interpreter"):
        refused(
            lambda platform=platform: client.compile(entry(body).encode(), platform), code, what
        )


def test_unknown_opcodes() -> None:
    error = refused(lambda: client.load(entry("f32[4] negat(x)").encode()), "HLO_TEXT", "negat")
    assert "negate" in str(error.hint)
    strange = module(computation([instruction("frobnicate", 3)], 3))
    refused(lambda: client.load(strange), "HLO_PROTO", "unknown opcode 'frobnicate'")
    unknown = entry('f32[4] custom-call(x), custom_call_target="Strange"').encode()
    refused(lambda: client.compile(unknown, "cpu"), "UNSUPPORTED", "unknown custom call 'Strange'")


# Sizes


def test_sizes_beyond_any_memory() -> None:
    text = entry(f"f32[{HUGE}] broadcast(x), dimensions={{}}")
    refused(lambda: client.load(text.encode()), "HLO_TEXT", "bytes")
    huge = encode("ShapeProto", {"element_type": "F32", "dimensions": (HUGE, HUGE)})
    data = module(computation([instruction("parameter", 0, shape=huge)], 0))
    refused(lambda: client.load(data), "HLO_PROTO", "bytes")
    groups = entry(f"f32[4] all-reduce(x), replica_groups=[1,{HUGE}]<=[{HUGE}], to_apply=e")
    refused(lambda: client.load(groups.encode()), "HLO_TEXT", "too large")


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("size", [2**40, 2**58])
def test_sizes_beyond_this_memory(platform: str, size: int) -> None:
    text = (
        f"ENTRY e {{ x = f32[] parameter(0)\n ROOT r = f32[{size}] broadcast(x), dimensions={{}} }}"
    )
    compiled = client.compile(text.encode(), platform)
    refused(lambda: compiled(np.float32(1)), "OUT_OF_MEMORY", str(4 * size))


# Depth


@pytest.mark.parametrize(
    "text",
    [
        entry("(" * DEEP + "f32[]" + ")" * DEEP + " parameter(1)"),
        entry("f32[4] " + "negate(" * DEEP + "x" + ")" * DEEP),
        entry("f32[4] " + "call(), to_apply={ a = f32[4] " * DEEP + "}" * DEEP),
        entry("f32[4] constant(" + "{" * DEEP + "}" * DEEP + ")"),
        entry("f32[4] negate(x), sharding=" + "{" * DEEP + "}" * DEEP),
    ],
    ids=["types", "operands", "computations in place", "constants", "shardings"],
)
def test_text_nested_100000_deep(text: str) -> None:
    refused(lambda: client.load(text.encode()), "HLO_TEXT")


def test_shapes_of_protos_nested_100000_deep() -> None:
    lengths, size = [], len(encode("ShapeProto", {"element_type": "F32"}))
    for _ in range(DEEP):
        lengths.append(size)
        size += 1 + len(varint(size)) + 2
    inner = encode("ShapeProto", {"element_type": "F32"})
    head = b"".join(b"\x10\x0d\x22" + varint(length) for length in reversed(lengths))
    data = module(computation([instruction("parameter", 0, shape=head + inner)], 0))
    refused(lambda: client.load(data), "HLO_PROTO", "nested")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.long
def test_called_computations_nested_100000_deep() -> None:
    called = identity("c0")
    for n in range(1, DEEP):
        called = identity(f"c{n}", called)
    program = with_unique_names(HloModule("deep", called))
    refused(lambda: client.compile(program, "cpu"), "COMPILE", "nested 100000 deep")


def identity(name: str, called: HloComputation | None = None) -> HloComputation:
    """A number given back, by a map of another such computation if there is one."""
    builder = HloBuilder(name)
    x = builder.parameter(array(F32))
    if called is None:
        return builder.build(x)
    return builder.build(builder.op("map", x, dimensions=(), to_apply=called))


@pytest.mark.long
@pytest.mark.rotating
def test_calls_nested_100000_deep() -> None:
    """Calls are inlined, so these are no nesting at all."""
    compiled = client.compile(tower("call", DEEP, 1), "interpreter")
    assert float(np.asarray(compiled(np.float32(1)))) == -1


@pytest.mark.parametrize("opcode", ["call", "fusion", "map", "while"])
def test_computations_that_double_at_each_level(opcode: str) -> None:
    refused(lambda: client.compile(tower(opcode, 60, 2), "cpu"), "COMPILE", r"about 10\^1")


# Arguments


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    "arguments",
    [
        (), (X,), (X, X, X), (X[:3], X), (X, X.reshape(2, 2)), (X.astype(np.float64), X),
        (X, X.astype(np.int32)), (X, None), (X, "four"), (X, [[1], [2, 3]]), (X, object()),
        (X, (X, X)), (X, X.astype("U4")),
    ],
    ids=lambda a: " ".join(type(v).__name__ for v in a) or "none",
)  # fmt: skip
def test_arguments_of_wrong_number_shape_or_type(
    arguments: tuple[object, ...], platform: str
) -> None:
    compiled = client.compile(PROTO, platform)
    refused(lambda: compiled(*arguments), "ARGUMENT")
    np.testing.assert_array_equal(np.asarray(compiled(X, X)), -2 * X)


# Plugins

SAMPLES = "tests.unit.runtime.plugin_samples"


LOADING = {"import": "tests.unit.runtime.raises_at_import", **{
    name: f"{SAMPLES}:{name}" for name in ("raises", "exits", "returns_text", "new_major")
}}  # fmt: skip


@pytest.mark.parametrize("name", LOADING)
def test_a_plugin_that_raises_at_import_or_in_its_hook(name: str) -> None:
    bad = EntryPoint(name, LOADING[name], ENTRY_POINT_GROUP)
    with using_registry(Registry(find=lambda: [bad, *installed_plugins()])) as registry:
        (found,) = [p for p in registry.plugins() if p.name == name]
        error = found.error
        assert error is not None and error.code == "PLUGIN" and "Traceback" in found.traceback
        assert error.what and error.where and error.why and error.hint
        still_works()


@pytest.fixture
def beside() -> Iterator[Registry]:
    """The installed platforms, and room for a bad one."""
    with using_registry(Registry()) as registry:
        yield registry


def still_works() -> None:
    """Nothing else is broken: another platform compiles and runs."""
    compiled = client.compile(PROTO, "cpu")
    np.testing.assert_array_equal(np.asarray(compiled(X, X)), -2 * X)


@pytest.mark.parametrize("function", ["visible_device_count", "create_executor"])
@pytest.mark.parametrize(
    "error", [ValueError("bug"), SystemExit(3), RecursionError("deep")], ids=repr
)
def test_a_plugin_that_raises_while_counting_or_opening_devices(
    function: str, error: BaseException, beside: Registry
) -> None:
    driver = Driver()
    driver.fail(function, *[error] * 9)
    beside.register(null_spec(driver, tier=2, priority=900))
    refused(lambda: client.compile(PROTO, "null"), "PLUGIN", function)
    still_works()


class RaisingCompiler(Compiler2):
    """Raises where the class attribute says."""

    at = "compile"

    def supports(self, instruction, description):  # type: ignore[no-untyped-def]
        if self.at == "supports":
            raise ZeroDivisionError("bug in supports")
        return super().supports(instruction, description)

    def compile(self, module, options):  # type: ignore[no-untyped-def]
        raise ZeroDivisionError("bug in compile")


@pytest.mark.parametrize("function", ["compile", "supports"])
def test_a_plugin_that_raises_while_compiling(function: str, beside: Registry) -> None:
    compiler = type("Raising", (RaisingCompiler,), {"at": function})
    beside.register(PlatformSpec("bad", lambda: Platform1(Driver()), compiler=compiler))
    refused(lambda: client.compile(PROTO, "bad"), "PLUGIN", function)
    still_works()


@pytest.mark.parametrize("tier", [2, 4])
@pytest.mark.parametrize(
    ("function", "code"), [("load", "PLUGIN"), ("launch", "EXECUTE"), ("run", "EXECUTE")]
)
def test_a_plugin_that_raises_while_loading_or_launching(
    function: str, code: str, tier: int, beside: Registry
) -> None:
    driver = Driver()
    driver.fail(function, ZeroDivisionError(f"bug in {function}"))
    beside.register(null_spec(driver, tier=tier, priority=900))
    refused(lambda: np.asarray(client.compile(PROTO, "null")(X, X)), code)
    np.testing.assert_array_equal(np.asarray(client.compile(PROTO, "null")(X, X)), -2 * X)
    still_works()


# Memory, with a limit that only a process of its own can have


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with whole_path_worker() as child:
        yield child


TIMES = 2**40
HOSTILE = {
    "sort": f"i = f32[{2**33}] iota(), iota_dimension=0\n"
    f" ROOT r = f32[{2**33}] sort(i), dimensions={{0}}, to_apply=ge",
    "pad": f"z = f32[] constant(0)\n ROOT r = f32[{TIMES + 4}] pad(x, z), padding={TIMES}_0",
    "fft": f"c = c64[{2**31}] iota(), iota_dimension=0\n"
    f" ROOT r = c64[{2**31}] fft(c), fft_type=FFT, fft_length={{{2**31}}}",
    "cholesky": f"b = f32[{2**15},{2**15}] iota(), iota_dimension=0\n"
    f" ROOT r = f32[{2**15},{2**15}] cholesky(b), lower=true",
    "dot": f"i = f32[{2**20}] iota(), iota_dimension=0\n ROOT r = f32[{2**20},{2**20}] dot(i, i),"
    " lhs_contracting_dims={}, rhs_contracting_dims={}",
    "replicas": f"ROOT r = f32[4] all-reduce(x), replica_groups={{{{0,{HUGE}}}}}, to_apply=add",
}
BODIES = """HloModule m
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE }
add { d = f32[] parameter(0)
  f = f32[] parameter(1)
  ROOT g = f32[] add(d, f) }
"""


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_programs_that_want_more_memory_than_there_is(name: str, worker: Worker) -> None:
    text = f"{BODIES}ENTRY e {{ x = f32[4] parameter(0)\n {HOSTILE[name]} }}"
    outcome = worker.call(bytes(8) + text.encode())
    assert outcome.status is Status.OK, outcome.detail
    answers: list[Answer] = answers_of(outcome.value)
    assert {a.end for a in answers} == {"refused"}, answers
    assert {a.code for a in answers} <= {"OUT_OF_MEMORY", "HLO_EVALUATE", "HLO_VERIFY"}
