"""What object files want, as this reads it and as linkers do; damaged files are refused."""

import pytest

from xladev.errors import FormatError
from xladev.platforms.cpu.engine import object_code, parsed, target_machine
from xladev.platforms.cpu.object_symbols import undefined_symbols
from xladev.platforms.cpu.targets import target_names, target_of

TEXT = """
@data = external global i32
declare void @wanted(ptr)
declare float @another(float)
declare void @never()
define internal void @local() noinline nounwind {
  ret void
}
define float @f(float %x) nounwind {
  call void @wanted(ptr @data)
  call void @local()
  %y = call float @another(float %x)
  ret float %y
}
"""


def object_of(target: str) -> bytes:
    machine = target_machine(1, target_of(target))
    code = parsed("m", TEXT)
    code.data_layout = str(machine.target_data)
    return object_code("m", machine, code)


@pytest.mark.parametrize("target", target_names())
def test_what_is_called_and_not_there_is_found(target: str) -> None:
    found = undefined_symbols(object_of(target))
    names = set(found) - {"data", "_GLOBAL_OFFSET_TABLE_"}
    assert names == {"another", "wanted"}
    assert ("data" in found) != target.startswith("wasm32")


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "armv7-linux-gnueabihf", "wasm32"])
def test_truncated_objects_are_refused(target: str) -> None:
    data = object_of(target)
    found = undefined_symbols(data)
    for nbytes in range(0, len(data), 7):
        try:
            some = undefined_symbols(data[:nbytes])
        except FormatError:
            continue
        assert set(some) <= set(found)


def test_other_files_are_refused() -> None:
    with pytest.raises(FormatError, match="no object file"):
        undefined_symbols(b"!<arch>\n")
