"""NCCL's C interface: declared as its header says, exported by its library, called in order."""

import ctypes
import importlib.util
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.unit.platforms.cuda.driver.fake_nccl import Library
from xladev.platforms.cuda.driver.interface import DriverError, LibraryError, Share
from xladev.platforms.cuda.driver.nccl import FUNCTIONS, Config, Nccl, UniqueId
from xladev.platforms.cuda.driver.rank_group import RankGroup
from xladev.platforms.cuda.driver.ranks import IN_PROGRESS, REMOTE_ERROR, SUCCESS
from xladev.platforms.cuda.libraries.collectives import OPERATIONS, SUMS, LibraryCollective

_C_TYPES = {
    "int": ctypes.c_int, "size_t": ctypes.c_size_t, "int*": ctypes.POINTER(ctypes.c_int),
    "ncclDataType_t": ctypes.c_int, "ncclRedOp_t": ctypes.c_int,
    "ncclResult_t*": ctypes.POINTER(ctypes.c_int), "ncclComm_t": ctypes.c_void_p,
    "ncclComm_t*": ctypes.POINTER(ctypes.c_void_p), "cudaStream_t": ctypes.c_void_p,
    "void*": ctypes.c_void_p, "ncclUniqueId": UniqueId, "ncclUniqueId*": ctypes.POINTER(UniqueId),
    "ncclConfig_t*": ctypes.POINTER(Config),
}  # fmt: skip


@pytest.fixture(scope="module")
def package():
    """The folder of NVIDIA's wheel."""
    found = importlib.util.find_spec("nvidia")
    places = found.submodule_search_locations if found else ()
    for place in places or ():
        if (Path(place) / "nccl" / "include" / "nccl.h").exists():
            return Path(place) / "nccl"
    pytest.skip("nvidia-nccl-cu12 is not installed: NCCL's header and library are not compared")


def parameters(header, name):
    """The C types of a function's parameters, without const."""
    (said,) = re.findall(rf"ncclResult_t\s+{name}\(([^)]*)\);", header)
    for each in filter(None, (p.strip() for p in said.split(","))):
        words = re.sub(r"\bconst\b|\s*\w+$", "", each) if " " in each or "*" in each else each
        stars = each.count("*")
        yield words.replace("*", "").split()[0] + "*" * stars


def test_functions_are_declared_as_in_the_header(package):
    header = (package / "include" / "nccl.h").read_text()
    for name, types in FUNCTIONS.items():
        assert [_C_TYPES[said] for said in parameters(header, name)] == list(types), name


def test_numbers_are_those_of_the_header(package):
    header = (package / "include" / "nccl.h").read_text()
    values = dict(re.findall(r"\b(nccl\w+)\s*=\s*(\d+)", header))
    names = {
        "s8": "Int8", "u8": "Uint8", "s32": "Int32", "u32": "Uint32", "s64": "Int64",
        "u64": "Uint64", "f16": "Float16", "f32": "Float32", "f64": "Float64", "bf16": "Bfloat16",
    }  # fmt: skip
    assert {k: int(values[f"nccl{v}"]) for k, v in names.items()} == SUMS
    named = {"add": "Sum", "multiply": "Prod", "maximum": "Max", "minimum": "Min"}
    assert {k: int(values[f"nccl{v}"]) for k, v in named.items()} == OPERATIONS
    states = {
        "ncclSuccess": SUCCESS,
        "ncclRemoteError": REMOTE_ERROR,
        "ncclInProgress": IN_PROGRESS,
    }
    assert {k: int(values[k]) for k in states} == states
    assert "#define NCCL_UNIQUE_ID_BYTES 128" in header
    assert "#define NCCL_API_MAGIC 0xcafebeef" in header
    (fields,) = re.findall(r"typedef struct ncclConfig_v\d+ \{(.*?)\} ncclConfig_t;", header, re.S)
    declared = re.findall(r"(\w+);", fields)
    assert declared[: len(Config._fields_)] == [name for name, *_ in Config._fields_]


def test_the_real_library_has_the_functions_and_makes_an_id(package):
    library = ctypes.CDLL(str(package / "lib" / "libnccl.so.2"))
    nccl = Nccl(library, lambda _: nullcontext(), lambda _: 0, lambda *_: None)
    assert nccl.version() >= 21400
    assert len(nccl.unique_id()) == 128 and any(nccl.unique_id())
    assert "progress" in nccl.name(IN_PROGRESS)


class Stream:
    pointer = 5


def made(library, numbers=(1,)):
    nccl = Nccl(library, lambda _: nullcontext(), lambda s: s.pointer, lambda *_: None)
    library.called.clear()
    return RankGroup(nccl, [None] * len(numbers), numbers, 4, bytes(128))


def test_ranks_are_begun_in_one_group_and_do_not_block():
    library = Library()
    library.returns = dict.fromkeys(["ncclCommInitRankConfig", "ncclGroupEnd"], IN_PROGRESS)
    made(library, (1, 3))
    init = "ncclCommInitRankConfig"
    assert library.called == ["ncclGroupStart", init, init, "ncclGroupEnd"]
    _, size, _, rank, config = library.arguments[init]
    assert (size, rank) == (4, 3)
    said = config._obj
    assert (said.size, said.magic, said.version, said.blocking) == (24, 0xCAFEBEEF, 21400, 0)


def test_states_are_told_apart():
    library = Library()
    group = made(library)
    library.state = IN_PROGRESS
    assert not group.is_begun and not group.trouble()
    library.state = REMOTE_ERROR
    assert group.is_begun and group.trouble() == f"NCCL: words for {REMOTE_ERROR}"


_ALL_REDUCE = LibraryCollective("all-reduce", "f32", 8, "maximum")
_CALLS = {
    "ncclAllReduce": (_ALL_REDUCE, (100, 200, 8, 7, 2, 77, 5)),
    "ncclReduce": (
        LibraryCollective("collective-reduce", "f32", 8, root=2), (100, 200, 8, 7, 0, 2, 77, 5),
    ),
    "ncclReduceScatter": (
        LibraryCollective("reduce-scatter", "s32", 8), (100, 200, 8, 2, 0, 77, 5),
    ),
    "ncclAllGather": (LibraryCollective("all-gather", "u8", 8), (100, 200, 8, 1, 77, 5)),
    "ncclBroadcast": (
        LibraryCollective("collective-broadcast", "u8", 8, root=3), (100, 200, 8, 1, 3, 77, 5),
    ),
    "ncclSend": (LibraryCollective("all-to-all", "f32", 8), (196, 8, 7, 3, 77, 5)),
    "ncclRecv": (
        LibraryCollective("collective-permute", "u8", 8, pairs=((2, 1),)), (200, 8, 1, 2, 77, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CALLS)
def test_arguments_of_collectives(name):
    """The communicator is a pointer object of ctypes: compared by what it points to."""
    library = Library()
    group = made(library)
    collective, wanted = _CALLS[name]
    group.enqueue(collective, [Share(Stream(), 100, 200)])
    found = library.arguments[name]
    assert tuple(getattr(a, "value", a) for a in found) == wanted
    assert library.called[-1] == "ncclGroupEnd"


def test_an_aborted_group_calls_nothing_more():
    library = Library()
    group = made(library)
    group.abort()
    group.abort()
    assert library.called.count("ncclCommAbort") == 1
    library.state = REMOTE_ERROR
    assert group.is_begun and not group.trouble()
    with pytest.raises(DriverError, match="ended"):
        group.enqueue(_ALL_REDUCE, [Share(Stream(), 100, 200)])


@pytest.mark.parametrize(
    ("state", "end"), [(SUCCESS, "ncclCommDestroy"), (REMOTE_ERROR, "ncclCommAbort")]
)
def test_the_end_is_finalized_where_it_can_be(state, end):
    library = Library()
    group = made(library)
    library.state = state
    group.close()
    assert library.called[-3:] == ["ncclCommFinalize", "ncclCommGetAsyncError", end]


def test_refusals():
    library = Library()
    library.returns["ncclCommInitRankConfig"] = 4
    with pytest.raises(LibraryError, match="ncclCommInitRankConfig: words for 4"):
        made(library)
    assert library.called[-1] == "ncclGroupEnd"
    with pytest.raises(LibraryError, match="2.14"):
        made(Library(21303))
