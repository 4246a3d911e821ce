"""The function table of PJRT: whole, and polite where nothing stands behind a slot.

What jaxlib does with an error is its own affair for each slot. Read in its
`xla/pjrt/c_api_client/pjrt_c_api_client.cc` and `xla/pjrt/c/pjrt_c_api_helpers.cc`: some errors
become exceptions, others end the process.
"""

import ctypes
from itertools import chain

import pytest

from tests.tools.pjrt_table import HEAD_NBYTES, Table, slots
from xladev.hlo.text import parse_module

_INVALID_ARGUMENT, _UNIMPLEMENTED = 3, 12

# Slots whose errors end the process, by the object that they are asked about.
FATAL = {
    "": ("Plugin_Attributes", "Event_Create", "AsyncTrackingEvent_Destroy"),
    "client": (
        "Client_PlatformName", "Client_ProcessIndex", "Client_PlatformVersion", "Client_Devices",
        "Client_AddressableDevices", "Client_AddressableMemories", "Client_TopologyDescription",
        "Client_UpdateGlobalProcessInfo",
    ),
    "topology": (
        "TopologyDescription_PlatformName", "TopologyDescription_PlatformVersion",
        "TopologyDescription_GetDeviceDescriptions", "TopologyDescription_Attributes",
        "TopologyDescription_Fingerprint",
    ),
    "device": (
        "Device_GetDescription", "Device_IsAddressable", "Device_LocalHardwareId",
        "Device_AddressableMemories", "Device_DefaultMemory", "Device_GetAttributes",
        "Device_MemoryStats", "Device_CreateAsyncTrackingEvent", "Device_ClearMemoryStats",
    ),
    "description": (
        "DeviceDescription_Id", "DeviceDescription_ProcessIndex", "DeviceDescription_Attributes",
        "DeviceDescription_Kind", "DeviceDescription_DebugString", "DeviceDescription_ToString",
    ),
    "memory": (
        "Memory_Id", "Memory_Kind", "Memory_DebugString", "Memory_ToString",
        "Memory_AddressableByDevices", "Memory_Kind_Id",
    ),
    "loaded": (
        "LoadedExecutable_GetExecutable", "LoadedExecutable_AddressableDevices",
        "LoadedExecutable_AddressableDeviceLogicalIds", "LoadedExecutable_GetDeviceAssignment",
        "LoadedExecutable_IsDeleted",
    ),
    "executable": (
        "Executable_Name", "Executable_NumReplicas", "Executable_NumPartitions",
        "Executable_SizeOfGeneratedCodeInBytes", "Executable_NumOutputs",
        "Executable_GetCostAnalysis", "Executable_OutputMemoryKinds",
        "Executable_OutputElementTypes", "Executable_OutputDimensions", "Executable_Fingerprint",
        "Executable_GetCompileOptions", "Executable_ParameterMemoryKinds",
    ),
    "buffer": (
        "Buffer_ElementType", "Buffer_Dimensions", "Buffer_UnpaddedDimensions",
        "Buffer_DynamicDimensionIndices", "Buffer_GetMemoryLayout", "Buffer_Device",
        "Buffer_Memory", "Buffer_IsDeleted", "Buffer_IsOnCpu", "Buffer_ReadyEvent",
        "Buffer_DecreaseExternalReferenceCount", "Buffer_Delete",
    ),
    "event": ("Event_IsReady", "Event_Destroy"),
}  # fmt: skip

# Slots that end objects: asked last, in this order.
ENDS = (
    ("Buffer_Destroy", "buffer"), ("Executable_Destroy", "executable"),
    ("LoadedExecutable_Delete", "loaded"), ("LoadedExecutable_Destroy", "loaded"),
    ("ExecuteContext_Destroy", "context"), ("TopologyDescription_Destroy", "topology"),
    ("Client_Destroy", "client"),
)  # fmt: skip

# Their objects come from slots that refuse, so that nobody can ask them.
UNREACHABLE = frozenset(
    name
    for name in slots()
    if name.startswith(("CopyToDeviceStream_", "AsyncHostToDeviceTransferManager_"))
)

# Their errors become exceptions, statuses of futures, or are tolerated.
RETURNED = frozenset(
    {
        "Error_Destroy", "Error_Message", "Error_GetCode", "Error_ForEachPayload",
        "Plugin_Initialize", "Event_Error", "Event_Await", "Event_OnReady", "Event_Set",
        "Client_Create", "Client_LookupDevice", "Client_LookupAddressableDevice", "Client_Compile",
        "Client_DefaultDeviceAssignment", "Client_BufferFromHostBuffer",
        "Client_CreateViewOfDeviceBuffer", "Client_CreateBuffersForAsyncHostToDevice",
        "Client_DmaMap", "Client_DmaUnmap", "Client_CreateUninitializedBuffer",
        "Client_CreateAliasBuffer", "Client_FulfillAliasBuffer", "Client_CreateErrorBuffer",
        "Client_Load", "Executable_OptimizedProgram", "Executable_Serialize",
        "Executable_DeserializeAndLoad", "Executable_GetCompiledMemoryStats",
        "LoadedExecutable_Execute", "LoadedExecutable_Fingerprint", "Buffer_OnDeviceSizeInBytes",
        "Buffer_CopyToDevice", "Buffer_CopyToMemory", "Buffer_ToHostBuffer",
        "Buffer_UnsafePointer", "Buffer_IncreaseExternalReferenceCount",
        "Buffer_OpaqueDeviceMemoryDataPointer", "Buffer_CopyRawToHost",
        "Buffer_CopyRawToHostFuture", "Buffer_DonateWithControlDependency", "Buffer_Bitcast",
        "Device_PoisonExecution", "TopologyDescription_Create", "TopologyDescription_Serialize",
        "TopologyDescription_Deserialize",
        "TopologyDescription_MakeCanonicalShapeForMemorySpace",
        "TopologyDescription_GetMemorySpaceKindIds", "Compile", "ExecuteContext_Create",
    }
)  # fmt: skip

PROFILER, LAYOUTS, TRANSFERS, SHARDINGS = 1, 4, 12, 19
EXTENSIONS = {PROFILER: 2, LAYOUTS: 7, TRANSFERS: 4, SHARDINGS: 2}
"""Types of extensions, and how many fields they have in the version that the table declares."""

_MODULE = """HloModule twice
ENTRY e {
  x = f32[2,3] parameter(0)
  ROOT y = f32[2,3] add(x, x)
}
"""


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


@pytest.fixture
def objects(table: Table) -> dict[str, int]:
    """One object of each kind."""
    client = table.client()
    device = table.ask("Client_Devices", client).words(1, 2)[0]
    memory = table.ask("Device_DefaultMemory", device).word(1)
    loaded = table.compiled(client, parse_module(_MODULE))
    return {
        "client": client,
        "topology": table.ask("Client_TopologyDescription", client).word(1),
        "device": device,
        "description": table.ask("Device_GetDescription", device).word(1),
        "memory": memory,
        "loaded": loaded,
        "executable": table.ask("LoadedExecutable_GetExecutable", loaded).word(1),
        "buffer": _buffer(table, client, memory),
        "event": table.ask("Event_Create").word(0),
        "context": table.ask("ExecuteContext_Create").word(0),
    }


def _buffer(table: Table, client: int, memory: int) -> int:
    """An array f32[2,3] whose elements nobody wrote."""
    dims = (ctypes.c_int64 * 2)(2, 3)
    made = table.ask(
        "Client_CreateUninitializedBuffer", client, ctypes.addressof(dims), 2, 11, 0, 0, memory
    )
    return made.word(7)


def test_every_slot_is_filled(table: Table) -> None:
    names = slots()
    assert len(names) == len(set(names)) == 138
    (nbytes,) = (ctypes.c_size_t * 1).from_address(table.address)
    assert nbytes == HEAD_NBYTES + 8 * len(names)
    assert tuple((ctypes.c_int * 2).from_address(table.address + 32)) == (0, 114)
    assert all(table.functions.values())


def test_of_every_slot_it_is_known_what_an_error_does() -> None:
    fatal = [*chain(*FATAL.values()), *(name for name, _ in ENDS)]
    known = [*fatal, *RETURNED, *UNREACHABLE]
    assert sorted(known) == sorted(slots())


def test_no_slot_gives_an_error_that_ends_the_process(
    table: Table, objects: dict[str, int]
) -> None:
    for kind, names in FATAL.items():
        for name in names:
            assert not table.call(name, *([objects[kind]] if kind else [])).error, name
    for name, kind in ENDS:
        assert not table.call(name, objects[kind]).error, name


def test_a_deleted_buffer_is_still_asked(table: Table, objects: dict[str, int]) -> None:
    """jaxlib asks for the event a moment after it asked whether the buffer lives."""
    buffer = objects["buffer"]
    table.ask("Buffer_Delete", buffer)
    for name in FATAL["buffer"]:
        assert not table.call(name, buffer).error, name
    event = table.ask("Buffer_ReadyEvent", buffer).word(1)
    assert table.ask("Event_IsReady", event).word(1) & 1
    assert "deleted or donated" in table.message(table.call("Event_Error", event).error)


def test_other_processes_are_heard_of(table: Table, objects: dict[str, int]) -> None:
    infos = ctypes.create_string_buffer(2 * 56)
    table.ask("Client_UpdateGlobalProcessInfo", objects["client"], ctypes.addressof(infos), 2)


def test_extensions_are_whole(table: Table) -> None:
    """jaxlib reads the functions of the version that the table declares, whatever the size says."""
    assert {kind: len(functions) for kind, (_, functions) in table.extensions.items()} == EXTENSIONS
    for kind, (_, functions) in table.extensions.items():
        assert all(functions[:1] if kind == PROFILER else functions)  # the other one is a number


def test_layouts_of_both_sides_are_told(table: Table, objects: dict[str, int]) -> None:
    _, (_, serialize, *_, of_results, of_parameters) = table.extensions[LAYOUTS]
    for of_program in (of_results, of_parameters):
        (layout,) = table.ask(of_program, objects["executable"]).words(2, 1)
        assert table.ask(serialize, layout).text(1, 2) == "{1,0}"


def test_transfers_between_processes_are_refused_where_there_is_one(
    table: Table, objects: dict[str, int]
) -> None:
    """Not as UNIMPLEMENTED: jaxlib would call the older functions then."""
    _, (_, _, receive, send) = table.extensions[TRANSFERS]
    one = (ctypes.c_size_t * 1)(objects["buffer"])
    dims, types = (ctypes.c_int64 * 1)(3), (ctypes.c_int32 * 1)(11)
    rows, ranks = (ctypes.c_size_t * 1)(ctypes.addressof(dims)), (ctypes.c_size_t * 1)(1)
    keys, result = (ctypes.c_int64 * 1)(7), (ctypes.c_size_t * 1)()
    for device, text in ((0, "of this process"), (99, "no device 99")):
        ids = (ctypes.c_int32 * 1)(device)
        sent = [one, ids, keys, result]
        error = table.call(send, objects["client"], 1, *map(ctypes.addressof, sent)).error
        _refused(table, error, text)
        shapes = [ctypes.addressof(each) for each in (ranks, rows, types)]
        found = [ctypes.addressof(each) for each in (ids, keys, result)]
        error = table.call(
            receive, objects["client"], 1, *shapes, 0, objects["device"], *found
        ).error  # fmt: skip
        _refused(table, error, text)
    assert result[0] == 0


def _refused(table: Table, error: int, text: str) -> None:
    assert text in table.message(error)
    assert table.ask("Error_GetCode", error).word(1) & 0xFFFFFFFF == _INVALID_ARGUMENT


def test_older_transfers_are_refused_and_descriptors_freed(
    table: Table, objects: dict[str, int]
) -> None:
    """One of the two functions has no result for an error: it calls back."""
    _, (make, copy, _, _) = table.extensions[TRANSFERS]
    error = table.call(make, objects["client"]).error
    assert table.ask("Error_GetCode", error).word(1) & 0xFFFFFFFF == _UNIMPLEMENTED
    said, freed = [], []
    done = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)(
        lambda error, enqueued, argument: said.append((table.message(error), enqueued, argument))
    )
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda *a: freed.append(a))
    event = table.ask("Event_Create").word(0)
    pointers = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (done, free)]
    arguments = ctypes.create_string_buffer(512)
    words = (ctypes.c_uint64 * 9).from_buffer(arguments)
    words[:] = [512, 0, objects["buffer"], event, 1, 2, 5, *pointers]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(copy)(ctypes.addressof(arguments))
    assert len(said) == 1 and "by their keys alone" in said[0][0] and said[0][1:] == (False, 5)
    assert not freed  # the descriptor is not there yet
    table.ask("Event_Set", event)
    assert freed == [(1, 2)]


def test_what_is_missing_says_its_name(table: Table) -> None:
    error = table.call("Client_DmaMap").error
    assert table.message(error) == "xladev has no PJRT_Client_DmaMap"
    assert table.ask("Error_GetCode", error).word(1) & 0xFFFFFFFF == _UNIMPLEMENTED
