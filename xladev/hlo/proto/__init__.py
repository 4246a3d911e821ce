"""Serialized ``HloModuleProto``, the primary exchange format: `read_module`, `write_module`."""

from __future__ import annotations

from xladev.hlo.proto.reader import read_module
from xladev.hlo.proto.writer import write_module

__all__ = ["read_module", "write_module"]
