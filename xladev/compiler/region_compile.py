"""Gives one region to a backend's compiler and checks what comes back."""

from __future__ import annotations

from xladev.compiler.assignment import EVALUATOR, CompileTarget
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.signature import Signature
from xladev.errors import PluginError, XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import write_module
from xladev.hlo.shape import Shape
from xladev.instrument import trace_scope


def compile_region(
    target: CompileTarget | None, module: HloModule, options: CompileOptions
) -> Executable:
    """The executable of a module that one platform runs.

    Args:
        target: whose compiler; None for the SDK's evaluator.
        module: all of whose instructions the target supports.
        options: how.

    Raises:
        CompileError: the backend refused.
        PluginError: the backend raised anything else, or gave something else.
    """
    if target is None:
        return evaluator_executable(module)
    try:
        with trace_scope(module.name, "compile-region", platform=target.name):
            pipeline = target.compiler.pipeline(options)
            ready = module if pipeline is None else pipeline.run(module)
            made = target.compiler.compile(ready, options)
    except XladevError as e:
        raise e.at(f"module {module.name}, platform {target.name}") from e.__cause__
    except Exception as e:
        raise PluginError(
            f"plugin {target.name!r} raised {type(e).__name__} in Compiler.compile",
            where=f"module {module.name}",
            why=str(e) or type(e).__name__,
        ) from e
    _check(made, module, target.name)
    return made


def evaluator_executable(module: HloModule) -> Executable:
    """A module for the evaluator: its serialized proto, with row-major arrays outside."""
    signature = Signature(
        name=module.name,
        platform=EVALUATOR,
        parameters=tuple(_row_major(p.shape) for p in module.entry.parameters),
        result=_row_major(module.entry.root.shape),
    )
    return Executable(signature, write_module(module))


def _row_major(shape: Shape) -> Shape:
    return shape.without_layout().with_default_layout()


def _check(made: object, module: HloModule, plugin: str) -> None:
    """Checks that an executable takes and gives what its module does."""
    where = f"module {module.name}"
    if not isinstance(made, Executable):
        raise PluginError(
            f"plugin {plugin!r} returned {type(made).__name__} from Compiler.compile",
            where=where,
            why="the contract says Executable",
        )
    signature = made.signature
    wanted = (*(p.shape for p in module.entry.parameters), module.entry.root.shape)
    found = (*signature.parameters, signature.result)
    if len(wanted) != len(found) or not all(map(Shape.equal_ignoring_layout, wanted, found)):
        raise PluginError(
            f"plugin {plugin!r} compiled {module.name} to another signature",
            where=where,
            why=f"it takes and gives {', '.join(map(str, found))}",
        )
