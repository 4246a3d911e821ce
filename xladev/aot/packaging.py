"""What build systems read: a pkg-config file and a CMake package."""

from __future__ import annotations

from xladev import __version__
from xladev.aot.interface import Interface


def pkg_config(interface: Interface) -> str:
    """``NAME.pc``: the library is beside the file, wherever that is put."""
    return f"""\
prefix=${{pcfiledir}}

Name: {interface.name}
Description: compiled by xladev for {interface.target}
Version: {__version__}
Cflags: -I${{prefix}}
Libs: -L${{prefix}} -l{interface.name}
"""


def cmake_config(interface: Interface) -> str:
    """``NAMEConfig.cmake``: an imported static library ``NAME::NAME``, beside the file."""
    name = interface.name
    return f"""\
# find_package({name} CONFIG REQUIRED PATHS folder-of-this-file)
# target_link_libraries(my_program PRIVATE {name}::{name})
# Compiled by xladev {__version__} for {interface.target}.

if(NOT TARGET {name}::{name})
  add_library({name}::{name} STATIC IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
endif()
"""
