"""Every private name of jax and jaxlib that xladev uses; checked for jax 0.10 to 0.12."""

from __future__ import annotations

import io
from typing import Any

from xladev.errors import CompileError, UnsupportedError

# Primitives whose rules for JAX's CPU give plain HLO, or calls of LAPACK by name, which xladev
# knows (`xladev/hlo/custom_calls/lapack.py`).
_CPU_RULES = (
    "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu",
    "ormqr", "schur", "svd", "symmetric_product", "triangular_solve", "tridiagonal",
    "tridiagonal_solve",
)  # fmt: skip


def register_platform(name: str, library: str, options: dict[str, str], priority: int) -> None:
    """Makes a JAX platform of a PJRT library."""
    from jax._src import xla_bridge

    # JAX warns that a platform it does not know is experimental.
    known: set[str] | None = getattr(xla_bridge, "_nonexperimental_plugins", None)
    if known is not None:
        known.add(name)
    xla_bridge.register_plugin(name, library_path=library, options=options, priority=priority)


def add_rules(platform: str) -> None:
    """Gives a JAX platform donation, and lowering rules for what unknown platforms lack."""
    from jax._src.interpreters import mlir

    if platform not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(platform)
    rules = mlir._platform_specific_lowerings
    for primitive, rule in list(rules["cpu"].items()):
        if primitive.name in _CPU_RULES and primitive not in rules[platform]:
            rules[platform][primitive] = rule


def module_bytecode(artifact: bytes) -> bytes:
    """MLIR bytecode of a StableHLO module from a portable artifact, or from MLIR of any form.

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
        except Exception:  # noqa: BLE001 (no artifact: perhaps MLIR as it is)
            module = _parse(ir, context, artifact)
        return _bytecode(module)


def _parse(ir: Any, context: Any, code: bytes) -> Any:
    try:
        return ir.Module.parse(code, context)
    except Exception as error:
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
