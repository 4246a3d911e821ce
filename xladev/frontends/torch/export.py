"""Programs that `torch.export` made: as HLO, and as functions of tensors on any platform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

import xladev.client
from xladev.compiler.options import CompileOptions
from xladev.errors import ArgumentError, UnsupportedError
from xladev.frontends.torch import adapter
from xladev.frontends.torch.backend import decompositions
from xladev.frontends.torch.call import caller
from xladev.frontends.torch.errors import told_as_torch
from xladev.frontends.torch.graph import LoweredGraph, lower_graph
from xladev.frontends.torch.symbols import sizes_of, symbols_of
from xladev.hlo.ir import HloModule

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def exported_module(
    program: ExportedProgram | str | Path, *, weights: str = "constants", name: str = "exported"
) -> HloModule:
    """The HLO of an exported program of fixed sizes.

    Args:
        program: what `torch.export.export` made, or a .pt2 file of `torch.export.save`. torch reads
            the file, which may run code that is in it.
        weights: ``constants``: in the program, whose parameters are the user's inputs alone;
            ``parameters``: before them, in the order of `exported_weights`.
        name: of the module.

    Returns:
        A module whose result is a tuple of the user's results, each of its tensor's shape; what the
        program writes into its buffers is left out.

    Raises:
        NotLowered: an operator has no lowering; an export has nobody else to run it.
        UnsupportedError: sizes that are not fixed, or another version of torch.
    """
    with told_as_torch("exported_module"):
        return _module(program, weights, name)


def exported_weights(program: ExportedProgram | str | Path) -> dict[str, torch.Tensor]:
    """The tensors that the module of an exported program takes before the user's inputs.

    Args:
        program: as `exported_module` takes it.

    Returns:
        Parameters, buffers and other tensors by their names in the program, in the order in which
        `exported_module` with ``weights="parameters"`` has them: decomposing may change that of the
        program's own signature. No elements are copied.

    Raises:
        UnsupportedError: another version of torch.
    """
    with told_as_torch("exported_weights"):
        adapter.check_version()
        return {target: held for _, target, held in _held(_decomposed(_read(program)))}


def _module(program: ExportedProgram | str | Path, weights: str, name: str) -> HloModule:
    adapter.check_version()
    read = _read(program)
    graph = _decomposed(read)
    if symbols_of(graph.graph_module):
        raise UnsupportedError(
            "the exported program has sizes that are not fixed",
            why="a module of HLO has one size for each dimension",
            hint="export without dynamic_shapes, or call compile_exported, which takes any sizes",
        )
    return _lowered(graph, name, weights=weights, sizes={}, is_alone=True).module


def _read(program: ExportedProgram | str | Path) -> ExportedProgram:
    return program if isinstance(program, ExportedProgram) else torch.export.load(str(program))


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    return program.run_decompositions(dict(decompositions()))


def _weights(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The tensors that a program holds, by the names of its placeholders."""
    return {placeholder: held for placeholder, _, held in _held(program)}


def _held(program: ExportedProgram) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Placeholder, name in the program, and tensor of what a program holds, in order."""
    for spec in program.graph_signature.input_specs:
        if spec.kind in _WEIGHTS:
            held = program.state_dict.get(spec.target)
            yield (
                spec.arg.name,
                spec.target,
                program.constants[spec.target] if held is None else held,
            )


def _lowered(
    program: ExportedProgram,
    name: str,
    *,
    weights: str,
    sizes: Mapping[Any, int],
    is_alone: bool = False,
) -> LoweredGraph:
    if weights not in ("constants", "parameters"):
        raise ArgumentError(f"weights={weights!r}", why="it is 'constants' or 'parameters'")
    constants = _weights(program) if weights == "constants" else {}
    outputs = program.graph_signature.output_specs
    kept = [at for at, spec in enumerate(outputs) if spec.kind is OutputKind.USER_OUTPUT]
    return lower_graph(
        program.graph_module, name, sizes, constants=constants, kept=kept, is_alone=is_alone
    )


class ExportedFunction:
    """An exported program on a platform: takes and gives what the exported module does.

    Sizes that the export left open are compiled for when they first come.
    """

    def __init__(
        self, program: ExportedProgram, platform: str | None, options: CompileOptions | None
    ) -> None:
        self._program = _decomposed(program)
        self._platform = platform
        self._options = options
        self._symbols = symbols_of(self._program.graph_module)
        self._calls: dict[tuple[int, ...], Callable[[list[Any]], Sequence[Any]]] = {}
        specs = self._program.graph_signature.input_specs
        self._held = _weights(self._program)
        self._names = [getattr(spec.arg, "name", "") for spec in specs]
        made = {n.name: n.meta.get("val") for n in self._program.graph.nodes}
        self._examples = [made.get(name) for name in self._names if name not in self._held]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the program.

        Raises:
            NotLowered: an operator has no lowering.
            ArgumentError: arguments nested otherwise than those of the export, or what is no tensor
                of the host where it has one.
        """
        leaves, tree = pytree.tree_flatten((args, kwargs))
        with told_as_torch("an exported program"):
            self._check(leaves, tree)
        given = iter(leaves)
        inputs = [self._held[n] if n in self._held else next(given) for n in self._names]
        key = sizes_of(inputs, self._symbols)
        call = self._calls.get(key) or self._made(key)
        with torch.no_grad():
            results = call(inputs)
        return pytree.tree_unflatten(results, self._program.call_spec.out_spec)

    def _check(self, leaves: Sequence[Any], tree: Any) -> None:
        wanted = self._program.call_spec.in_spec
        if tree != wanted:
            raise ArgumentError(
                "the arguments are nested otherwise than those of the export",
                why=f"they are {tree}, wanted {wanted}",
                hint="give what the exported module takes",
            )
        for number, (leaf, example) in enumerate(zip(leaves, self._examples, strict=True)):
            if isinstance(example, torch.Tensor) and not _is_on_host(leaf):
                raise ArgumentError(
                    f"argument {number} is {_shown(leaf)}",
                    why=f"the program takes a tensor of {example.dtype} there, on torch's cpu",
                    hint="tensors of other devices come over by .cpu()",
                )

    def _made(self, key: tuple[int, ...]) -> Callable[[list[Any]], Sequence[Any]]:
        sizes = dict(zip(self._symbols, key, strict=True))
        with told_as_torch("compile_exported"):
            lowered = _lowered(self._program, "exported", weights="parameters", sizes=sizes)
            run = xladev.client.compile(lowered.module, self._platform, self._options)
        return self._calls.setdefault(key, caller(lowered, run))


def _is_on_host(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _shown(value: Any) -> str:
    """What a wrong argument is."""
    kind = type(value).__name__
    return f"a tensor of {value.device}" if isinstance(value, torch.Tensor) else f"a {kind}"


def compile_exported(
    program: ExportedProgram | str | Path,
    platform: str | None = None,
    options: CompileOptions | None = None,
) -> ExportedFunction:
    """An exported program as a function of tensors on a platform.

    Args:
        program: what `torch.export.export` made, or a .pt2 file.
        platform: platform or device; None for the one of highest priority.
        options: xladev's.

    Raises:
        UnsupportedError: another version of torch.
    """
    with told_as_torch("compile_exported"):
        adapter.check_version()
    return ExportedFunction(_read(program), platform, options)
