"""Compilation for PJRT clients: imported with the first program, for it brings the compiler.

JAX opens every installed platform where JAX_PLATFORMS is unset, and most programs use none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev import client as xla
from xladev.compiler.options import CompileOptions
from xladev.errors import UnsupportedError
from xladev.frontends.jax.callbacks import custom_calls, used_callbacks
from xladev.frontends.jax.compile_options import Override, read_options
from xladev.frontends.jax.conversion import read_program
from xladev.frontends.jax.option_overrides import overridden
from xladev.frontends.jax.platform_client import PlatformClient
from xladev.frontends.jax.program import JaxProgram
from xladev.hlo.custom_calls.registry import known
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import source_line
from xladev.instrument import logger
from xladev.runtime.registry import current_registry

_log = logger("compile")


def compile(client: PlatformClient, code: bytes, form: str, options: bytes) -> JaxProgram:
    """See `engine.compile`."""
    wanted = read_options(options)
    first = tuple(range(wanted.num_replicas * wanted.num_partitions))
    rows = wanted.devices or tuple(
        first[r * wanted.num_partitions : (r + 1) * wanted.num_partitions]
        for r in range(wanted.num_replicas)
    )
    chosen = _compile_options(rows, wanted.overrides)
    given = read_program(code, form, wanted, chosen.all_reduce_bucket)
    module = given.module
    _log.info(
        "%s: a program of %d instructions for %s",
        module.name, sum(len(c.instructions) for c in module.computations), client.platform,
    )  # fmt: skip
    refuse_unknown_calls(module, client)
    compiled = xla.compile(module, client.platform, chosen)
    return JaxProgram(
        compiled, given.shown, options, rows, given.interface,
        callbacks=used_callbacks(module), shardings=given.shardings, is_portable=wanted.is_portable,
        is_own=client.is_own,
    )  # fmt: skip


def refuse_unknown_calls(module: HloModule, client: PlatformClient) -> None:
    """Refuses calls of C functions that neither xladev nor the platform knows.

    Raises:
        UnsupportedError: naming the first.
    """
    platform = current_registry().platform(client.platform)
    for call in custom_calls(module):
        target = call["custom_call_target"]
        if known(target) is None and not platform.compiler.supports(call, platform.describe()):
            raise UnsupportedError(
                f"nobody knows the function {target!r}",
                where=", ".join(filter(None, (call.name, source_line(module, call)))),
                why="jax.ffi.ffi_call calls C functions that were registered with XLA's own CPU or "
                "GPU; they are not found here",
                hint=f"give {target!r} a meaning with xladev.hlo.custom_calls.registry.register",
            )


def _compile_options(
    rows: tuple[tuple[int, ...], ...], overrides: Sequence[tuple[str, Override]]
) -> CompileOptions:
    data = overridden(CompileOptions.from_environment(), overrides).to_json()
    data |= {"num_replicas": len(rows), "num_partitions": len(rows[0]), "device_assignment": rows}
    return CompileOptions.from_json(data)
