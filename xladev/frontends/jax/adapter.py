"""Every private name of jax and jaxlib that xladev uses; checked for jax 0.10 to 0.12."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import io
import os
import re
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

from xladev.errors import CompileError, UnsupportedError
from xladev.frontends.jax.adapter_constants import take_constants
from xladev.hlo.custom_calls.cusolver import PERMUTATION
from xladev.hlo.literal import Array
from xladev.instrument import is_interruption

Options = dict[str, str | int]


def register_platform(
    name: str, library: str, options: Callable[[], Options], priority: int
) -> None:
    """Makes a JAX platform of a PJRT library; its options are asked for when it is opened.

    Where `jax.distributed` is used, the platform that JAX was told to prefer spans its processes.
    Clients of others are not told of them: jaxlib would watch over these processes for each client,
    and complain of them when the program ends.
    """
    from jax._src import xla_bridge

    def open_client() -> Any:
        spanned = _processes(name)
        return _open_client(name, {**options(), **spanned}, is_spread=bool(spanned))

    # JAX warns that a platform it does not know is experimental.
    known: set[str] | None = getattr(xla_bridge, "_nonexperimental_plugins", None)
    if known is not None:
        known.add(name)
    xla_bridge.register_plugin(name, library_path=library, factory=open_client, priority=priority)
    # Where nobody asked for it, a platform that cannot be opened is no error.
    factories = xla_bridge._backend_factories
    factories[name] = dataclasses.replace(factories[name], fail_quietly=True)


def _open_client(name: str, options: Options, *, is_spread: bool) -> Any:
    """A client of a registered PJRT library."""
    from jax._src import distributed
    from jax._src.lib import xla_client

    if not xla_client.pjrt_plugin_initialized(name):
        xla_client.initialize_pjrt_plugin(name)
    shared = distributed.global_state.client if is_spread else None
    return xla_client.make_c_api_client(name, options, shared)


def _processes(name: str) -> Options:
    """What a client is told of the processes that it spans; empty if it is this one alone."""
    from jax._src import config, distributed

    shared = distributed.global_state
    preferred = (config.jax_platforms.value or "").split(",")[0]
    if shared.client is None or (shared.num_processes or 1) < 2 or preferred != name:
        return {}
    return {
        "num_nodes": shared.num_processes or 1,
        "node_id": shared.process_id,
        "coordinator": shared.coordinator_address or "",
    }


def host_device_count() -> int:
    """How many devices JAX's own CPU is told to have; 0 if nobody said.

    Source: ``jax_num_cpu_devices``, else ``--xla_force_host_platform_device_count`` of XLA_FLAGS.
    """
    from jax._src import xla_bridge

    if xla_bridge.num_cpu_devices.value > 0:
        return int(xla_bridge.num_cpu_devices.value)
    named = re.findall(
        r"--xla_force_host_platform_device_count[= ](\d+)", os.environ.get("XLA_FLAGS", "")
    )
    return int(named[-1]) if named else 0


def add_cost_analysis(
    platforms: Collection[str], analyse: Callable[[bytes], dict[str, float]]
) -> None:
    """Lets programs that are lowered for JAX platforms be asked for their cost.

    Args:
        platforms: their names.
        analyse: the cost of a serialized HloModuleProto.
    """
    from jax._src.interpreters import pxla

    own = pxla.MeshComputation.cost_analysis

    @functools.wraps(own)
    def cost_analysis(self: Any) -> dict[str, float]:
        if self.compile_args["backend"].platform not in platforms:
            return dict(own(self))
        return analyse(self.hlo().as_serialized_hlo_module_proto())

    pxla.MeshComputation.cost_analysis = cost_analysis


def add_donation(platform: str) -> None:
    """Lets programs of a JAX platform take the memory of donated arguments."""
    from jax._src.interpreters import mlir

    if platform not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(platform)


def add_permutations(platform: str, is_addressable: Callable[[str], bool]) -> None:
    """Lets devices make the permutation of pivots of LU at once.

    JAX makes it by a loop over pivots, whose every step a device waits for the host. Platforms
    whose memory the host addresses keep that, where a loop costs less.
    """
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    at_once = jax.ffi.ffi_lowering(PERMUTATION)
    step_by_step = mlir.lower_fun(linalg._generic_lu_pivots_to_permutation, multiple_results=False)

    def rule(context: Any, pivots: Any, *, permutation_size: int) -> Any:
        if is_addressable(platform):
            return step_by_step(context, pivots, permutation_size=permutation_size)
        return at_once(context, pivots)

    mlir.register_lowering(linalg.lu_pivots_to_permutation_p, rule, platform=platform)


def surround_compilations(
    platforms: Collection[str], surround: Callable[[], AbstractContextManager[None]]
) -> None:
    """Compiles for JAX platforms within a context, entered in the thread that asks for it."""
    from jax._src import compiler

    own = compiler.backend_compile_and_load

    @functools.wraps(own)
    def compile_and_load(backend: Any, *rest: Any, **named: Any) -> Any:
        if backend.platform not in platforms:
            return own(backend, *rest, **named)
        with surround():
            return own(backend, *rest, **named)

    compiler.backend_compile_and_load = compile_and_load


def add_persistent_cache(platforms: Collection[str]) -> None:
    """Lets JAX's compilation cache on disk keep programs of JAX platforms too."""
    from jax._src import compilation_cache

    own = compilation_cache.is_cache_used

    def is_cache_used(backend: Any) -> bool:
        if backend.platform not in platforms:
            return bool(own(backend))
        return bool(compilation_cache._is_cache_enabled())

    compilation_cache.is_cache_used = is_cache_used


def add_dlpack(is_addressable: Callable[[str], bool]) -> None:
    """Makes arrays of platforms whose memory the host addresses give and take DLPack.

    They are shown as arrays of JAX's own CPU, in the same memory. What comes from host memory goes
    to the default device, where that is of such a platform, unless a device is named.
    """
    import jax
    import numpy as np
    from jax._src import array, dlpack

    own_device = array.ArrayImpl.__dlpack_device__
    own_to, own_from = dlpack.to_dlpack, dlpack.from_dlpack

    def dlpack_device(self: Any) -> Any:
        if is_addressable(self.platform()):
            return dlpack.DLDeviceType.kDLCPU, 0
        return own_device(self)

    def to_dlpack(x: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(x, array.ArrayImpl) and is_addressable(x.platform()):
            host = jax.devices("cpu")[0]
            x = jax.device_put(np.asarray(x), host)
            named |= {"src_device": host} if "src_device" in named else {}
        return own_to(x, *rest, **named)

    def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
        found = own_from(external_array, device, copy)
        if device is not None or found.platform() != "cpu" or _is_on(external_array, "cpu"):
            return found
        default = jax.config.jax_default_device or jax.devices()[0]
        if not is_addressable(getattr(default, "platform", "")):
            return found
        return jax.device_put(np.asarray(found), default)

    array.ArrayImpl.__dlpack_device__ = dlpack_device
    dlpack.to_dlpack, dlpack.from_dlpack = to_dlpack, from_dlpack
    jax.dlpack.from_dlpack = from_dlpack


def keep_what_has_threads() -> None:
    """Never ends clients and thread pools: a child of fork would wait for threads it does not have.

    Source: the destructors of jaxlib's clients and of LLVM's thread pool join their threads.
    """
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    pool = getattr(mlir, "global_thread_pool", None)
    for kept in (*xla_bridge._backends.values(), pool):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def _is_on(value: object, platform: str) -> bool:
    """True for a JAX array on that platform."""
    from jax._src import array

    return isinstance(value, array.ArrayImpl) and value.platform() == platform


def keep_host_platform() -> None:
    """Lets JAX open its own CPU too where JAX_PLATFORMS leaves it out.

    Arguments of callbacks and arrays of NumPy's DLPack live there; it stays second to the others.
    """
    from jax._src import config

    named = config.jax_platforms.value
    if named and "cpu" not in named.split(","):
        config.update("jax_platforms", f"{named},cpu")


Attributes = list[dict[str, str]]
"""Texts among the attributes of each argument or result of a function."""


def read_stablehlo(artifact: bytes) -> tuple[bytes, list[Array], Attributes, Attributes]:
    """A StableHLO module from a portable artifact, or from MLIR of any form.

    Returns:
        Its MLIR bytecode, the long constants that `take_constants` took out of it, and the
        attributes of its main function's arguments and results.

    Raises:
        CompileError: it cannot be read.
    """
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    context = mlir.make_ir_context()
    with context:
        try:
            module = stablehlo.deserialize_portable_artifact(context, artifact)
        except Exception as error:
            if is_interruption(error):
                raise
            module = _parse(ir, context, artifact)
        constants = take_constants(module)
        return _bytecode(module), constants, *_interface(ir, module)


def _interface(ir: Any, module: Any) -> tuple[Attributes, Attributes]:
    for function in module.body.operations:
        if function.operation.name == "func.func" and function.name.value == "main":
            attributes = function.operation.attributes
            arguments, results = (_texts(ir, attributes, n) for n in ("arg_attrs", "res_attrs"))
            return arguments, results
    return [], []


def _texts(ir: Any, attributes: Any, name: str) -> Attributes:
    if name not in attributes:
        return []
    return [
        {a.name: a.attr.value for a in given if isinstance(a.attr, ir.StringAttr)}
        for given in attributes[name]
    ]


def _parse(ir: Any, context: Any, code: bytes) -> Any:
    try:
        return ir.Module.parse(code, context)
    except Exception as error:
        if is_interruption(error):
            raise
        raise CompileError(
            "the program is no StableHLO that the installed jaxlib reads", why=str(error)
        ) from error


def _bytecode(module: Any) -> bytes:
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def hlo_proto(bytecode: bytes) -> bytes:
    """A serialized HloModuleProto from MLIR bytecode of StableHLO.

    Raises:
        CompileError: jaxlib cannot convert it.
    """
    from jax._src.lib import _jax

    convert = _jax.mlir.mlir_module_to_xla_computation
    try:
        computation = convert(bytecode, use_tuple_args=False, return_tuple=False)
    except Exception as error:
        if is_interruption(error):
            raise
        raise CompileError("jaxlib cannot make HLO of the program", why=str(error)) from error
    data: bytes = computation.as_serialized_hlo_module_proto()
    return data


def require_jaxlib() -> None:
    """Checks that StableHLO can be read.

    Raises:
        UnsupportedError: jaxlib is not installed.
    """
    try:
        import jaxlib.mlir.dialects.stablehlo  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            "reading StableHLO takes jaxlib, which is not installed",
            hint="pip install jax, or hand over a serialized HloModuleProto",
        ) from error
