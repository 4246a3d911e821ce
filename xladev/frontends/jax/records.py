"""What the shim reads of clients and programs: C structs, field for field those of ``shim.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

_NAMED_STRING, _NAMED_INT64 = 0, 1


class _NamedValue(ctypes.Structure):
    """PJRT_NamedValue: an attribute."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("value", ctypes.c_int64),
        ("value_size", ctypes.c_size_t),
    ]


class DeviceRecord(ctypes.Structure):
    """One device."""

    _fields_ = [
        ("id", ctypes.c_int64),
        ("process_index", ctypes.c_int),
        ("local_id", ctypes.c_int),
        ("kind", ctypes.c_char_p),
        ("debug_string", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("memory_kind", ctypes.c_char_p),
        ("attributes", ctypes.c_void_p),
        ("num_attributes", ctypes.c_size_t),
    ]


class ClientRecord(ctypes.Structure):
    """One platform."""

    _fields_ = [
        ("platform_name", ctypes.c_char_p),
        ("platform_version", ctypes.c_char_p),
        ("host_addressable", ctypes.c_bool),
        ("process_index", ctypes.c_int),
        ("num_processes", ctypes.c_int),
        ("num_devices", ctypes.c_size_t),
        ("devices", ctypes.c_void_p),
    ]


class ProgramRecord(ctypes.Structure):
    """One compiled program."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("fingerprint", ctypes.c_void_p),
        ("shown", ctypes.c_void_p),
        ("shown_format", ctypes.c_void_p),
        ("compile_options", ctypes.c_void_p),
        ("device_assignment", ctypes.c_void_p),
        ("name_size", ctypes.c_size_t),
        ("fingerprint_size", ctypes.c_size_t),
        ("shown_size", ctypes.c_size_t),
        ("shown_format_size", ctypes.c_size_t),
        ("compile_options_size", ctypes.c_size_t),
        ("device_assignment_size", ctypes.c_size_t),
        ("num_replicas", ctypes.c_size_t),
        ("num_partitions", ctypes.c_size_t),
        ("num_parameters", ctypes.c_size_t),
        ("num_outputs", ctypes.c_size_t),
        ("num_own", ctypes.c_size_t),
        ("device_ids", ctypes.c_void_p),
        ("own", ctypes.c_void_p),
        ("parameter_types", ctypes.c_void_p),
        ("output_types", ctypes.c_void_p),
        ("parameter_nbytes", ctypes.c_void_p),
        ("output_nbytes", ctypes.c_void_p),
        ("output_ranks", ctypes.c_void_p),
        ("parameter_dims", ctypes.c_void_p),
        ("output_dims", ctypes.c_void_p),
        ("output_dynamic", ctypes.c_void_p),
        ("parameter_layouts", ctypes.c_void_p),
        ("output_layouts", ctypes.c_void_p),
        ("parameter_ranks", ctypes.c_void_p),
        ("parameter_kinds", ctypes.c_void_p),
        ("output_kinds", ctypes.c_void_p),
        ("parameter_shardings", ctypes.c_void_p),
        ("output_shardings", ctypes.c_void_p),
        ("parameter_sharding_sizes", ctypes.c_void_p),
        ("output_sharding_sizes", ctypes.c_void_p),
        ("donated", ctypes.c_void_p),
        ("alias", ctypes.c_void_p),
        ("entry", ctypes.c_void_p),
        ("scratch_nbytes", ctypes.c_size_t),
        ("flops", ctypes.c_double),
        ("nbytes_accessed", ctypes.c_double),
        ("code_nbytes", ctypes.c_int64),
        ("argument_nbytes", ctypes.c_int64),
        ("result_nbytes", ctypes.c_int64),
        ("alias_nbytes", ctypes.c_int64),
        ("is_short", ctypes.c_bool),
        ("has_callbacks", ctypes.c_bool),
        ("is_portable", ctypes.c_bool),
        ("is_spread", ctypes.c_bool),
        ("is_tiny", ctypes.c_bool),
        ("joint_entries", ctypes.c_void_p),
        ("joint_contexts", ctypes.c_void_p),
        ("joint_failure", ctypes.c_void_p),
    ]


class Storage:
    """Keeps alive what records point to."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def text(self, value: str | bytes) -> ctypes.Array[ctypes.c_char]:
        """A zero-terminated copy."""
        data = value.encode() if isinstance(value, str) else value
        return self._keep(ctypes.create_string_buffer(data, len(data) + 1))

    def address(self, value: str | bytes) -> int:
        """The address of a zero-terminated copy."""
        return ctypes.addressof(self.text(value))

    def chars(self, value: str) -> bytes:
        """The text as ctypes wants it in a field of type c_char_p."""
        data = value.encode()
        self._kept.append(data)
        return data

    def numbers(self, kind: type[Any], values: Sequence[int]) -> int:
        """The address of an array of C numbers; never that of nothing."""
        return ctypes.addressof(self._keep((kind * max(len(values), 1))(*values)))

    def structs(self, values: Sequence[ctypes.Structure], kind: type[Any]) -> int:
        """The address of an array of structs."""
        return ctypes.addressof(self._keep((kind * max(len(values), 1))(*values)))

    def attributes(self, values: Mapping[str, str | int]) -> int:
        """The address of an array of PJRT_NamedValue."""
        return self.structs([self._named(k, v) for k, v in values.items()], _NamedValue)

    def _named(self, name: str, value: str | int) -> _NamedValue:
        key = self.chars(name)
        size = ctypes.sizeof(_NamedValue)
        if isinstance(value, int):
            return _NamedValue(size, None, key, len(key), _NAMED_INT64, value, 1)
        at, length = self.address(value), len(value.encode())
        return _NamedValue(size, None, key, len(key), _NAMED_STRING, at, length)

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value
