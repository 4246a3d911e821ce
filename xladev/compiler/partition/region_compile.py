"""Gives one region to a backend's compiler and checks what comes back."""

from __future__ import annotations

from xladev.compiler.executable import Executable
from xladev.compiler.isolation import as_error, expect, is_contained, plugin_call
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import EVALUATOR, CompileTarget
from xladev.compiler.prepare import instrumented_by
from xladev.compiler.signature import Signature
from xladev.errors import PluginError, XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import write_module
from xladev.hlo.shape import Shape
from xladev.instrument import trace_scope
from xladev.passes.pipeline import HloPassPipeline


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
        with (
            trace_scope(module.name, "compile-region", platform=target.name),
            instrumented_by(options),
        ):
            ready = _passed(target, target.formed(module), options)
            made = target.compiler.compile(ready, options)
    except XladevError as e:
        raise e.at(f"module {module.name}, platform {target.name}") from e.__cause__
    except BaseException as e:
        if not is_contained(e):
            raise
        raise as_error(e, target.name, "Compiler.compile", f"module {module.name}") from e
    _check(made, module, target.name)
    return made


def _passed(target: CompileTarget, module: HloModule, options: CompileOptions) -> HloModule:
    """The module behind the backend's own passes."""
    function, where = "Compiler.pipeline", f"module {module.name}"
    with plugin_call(target.name, function, where=where):
        pipeline = target.compiler.pipeline(options)
    if pipeline is None:
        return module
    return expect(pipeline, HloPassPipeline, target.name, function, where).run(module)


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
