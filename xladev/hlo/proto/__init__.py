"""Serialized ``HloModuleProto``, the primary exchange format: `read_module`, `write_module`."""

from __future__ import annotations

from xladev.hlo.proto.reader import read_module
from xladev.hlo.proto.writer import module_stamp, write_module

__all__ = ["module_stamp", "read_module", "write_module"]
