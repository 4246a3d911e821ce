"""The one place that names what is private in torch, and checks its version.

Written and tested with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from sympy import Mul
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._dynamo import config as dynamo_config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from xladev.errors import UnsupportedError
from xladev.frontends.torch.version import TESTED, is_tested

GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def check_version(version: str = torch.__version__) -> None:
    """Refuses a torch that this front end was not written for.

    Raises:
        UnsupportedError: another version than the one tested.
    """
    if is_tested(version):
        return
    raise UnsupportedError(
        f"torch {version} is installed",
        why=f"xladev's front end for PyTorch uses private parts of torch {TESTED}",
        hint=f"pip install 'torch=={TESTED}.0'",
    )


def _weight_norm_backward(
    gradient: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of v and g where weights are g * v / norms, the norms of v along all but a dim."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = (gradient * v).sum(others, keepdim=True) / norms
    return g / norms * (gradient - v * (along / norms)), along


_OWN: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten._weight_norm_interface_backward.default: _weight_norm_backward
}
"""What torch does not decompose."""


def decompositions(lowered: Mapping[str, Any]) -> dict[Any, Callable[..., Any]]:
    """Torch's own decompositions of what has no lowering."""
    every = {**decomposition_table, **core_aten_decompositions(), **_OWN}
    return {op: how for op, how in every.items() if str(op) not in lowered}


def ahead_of_time(
    compile_graph: Callable[[str], GraphCompiler], table: Mapping[Any, Callable[..., Any]]
) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """AOTAutograd: forward and backward traced together, made functional and cut in two."""
    made: Callable[..., Any] = aot_autograd(
        fw_compiler=compile_graph("forward"),
        bw_compiler=compile_graph("backward"),
        inference_compiler=compile_graph("inference"),
        decompositions=dict(table),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return made


def traced_function(
    function: Callable[..., Any],
    compile_graph: Callable[[str], GraphCompiler],
    table: Mapping[Any, Callable[..., Any]],
) -> Callable[..., Any]:
    """A function compiled as `ahead_of_time` does it, without Dynamo: for tests of operators."""
    made: Callable[..., Any] = aot_function(
        function,
        fw_compiler=compile_graph("forward"),
        bw_compiler=compile_graph("backward"),
        inference_compiler=compile_graph("inference"),
        decompositions=dict(table),
        partition_fn=min_cut_rematerialization_partition,
    )
    return made


def admit_recurrent_modules(
    backend: Callable[..., Any], functions: Sequence[Any], kernels: Mapping[Any, Callable[..., Any]]
) -> None:
    """Has Dynamo capture `nn.LSTM`, `nn.GRU` and `nn.RNN` whole for one backend.

    It breaks the graph there unless ``torch._dynamo.config.allow_rnn`` is set, which other backends
    do not bear: the switch is on only while a module is captured for this one. To know the results'
    sizes, Dynamo takes a call apart into all steps, and has one graph for each length then: for
    this backend it runs the kernels given here.

    Args:
        backend: which one.
        functions: what the modules call, `torch.lstm` and its like.
        kernels: what gives the results of these functions' operators.
    """
    _wrap(VariableBuilder, "wrap_module", lambda builder, _: _is_for(backend, builder.tx),
          lambda: dynamo_config.patch(allow_rnn=True))  # fmt: skip
    _wrap(TorchInGraphFunctionVariable, "call_function",
          lambda called, tx: called.value in functions and _is_for(backend, tx),
          lambda: _with_kernels(kernels))  # fmt: skip


def _wrap(
    owner: type,
    name: str,
    applies: Callable[[Any, Any], bool],
    within: Callable[[], AbstractContextManager[Any]],
) -> None:
    """Has a method run within a context where that applies, told itself and the first argument."""
    usual = getattr(owner, name)

    def method(self: Any, first: Any, *args: Any, **kwargs: Any) -> Any:
        with within() if applies(self, first) else nullcontext():
            return usual(self, first, *args, **kwargs)

    setattr(owner, name, method)


def _is_for(backend: Callable[..., Any], tx: Any) -> bool:
    return _innermost(tx.output.compiler_fn) is backend


@contextmanager
def _with_kernels(kernels: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Gives operators other kernels in Python for a while."""
    keys = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
    kept = {op: dict(op.py_kernels) for op in kernels}
    for op, kernel in kernels.items():
        op.py_kernels.update(dict.fromkeys(keys, kernel))
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, usual in kept.items():
            op.py_kernels.clear()
            op.py_kernels.update(usual)
            op._dispatch_cache.clear()


def _innermost(compiler: Any) -> Any:
    """The backend behind what torch.compile and Dynamo wrap around it."""
    for name in ("_torchdynamo_orig_backend", "compiler_fn"):
        while hasattr(compiler, name):
            compiler = getattr(compiler, name)
    return compiler


class _Supported(OperatorSupportBase):  # type: ignore[misc]
    def __init__(self, is_supported: Callable[[torch.fx.Node], bool]) -> None:
        super().__init__()
        self._is_supported = is_supported

    def is_node_supported(self, submodules: Mapping[str, Any], node: torch.fx.Node) -> bool:
        return self._is_supported(node)


def partitioned(
    graph: torch.fx.GraphModule, is_supported: Callable[[torch.fx.Node], bool]
) -> torch.fx.GraphModule:
    """The graph with what is supported in submodules named ``fused_N``."""
    partitioner = CapabilityBasedPartitioner(
        graph, _Supported(is_supported), allows_single_node_partition=True
    )
    made: torch.fx.GraphModule = partitioner.partition_and_fuse()
    return made


def real_tensors() -> AbstractContextManager[Any]:
    """Within it, tensors with elements may be used, though torch traces without."""
    found: AbstractContextManager[Any] = unset_fake_temporarily()
    return found


def concrete(value: Any, sizes: Mapping[Any, int]) -> int:
    """A size that is known: a number, or an expression of symbols whose values are given.

    Raises:
        UnsupportedError: the value of a symbol is not given, since it depends on elements.
    """
    if isinstance(value, int):
        return value
    expression = value.node.expr
    if not expression.free_symbols <= sizes.keys():
        raise UnsupportedError(
            f"size {value} is not known before the graph runs",
            why="it depends on elements of a tensor",
        )
    return int(expression.xreplace(dict(sizes)))


def symbol(value: Any) -> Any:
    """The expression behind a symbolic size."""
    return value.node.expr


def product_of(size: Any) -> tuple[int | None, list[Any]]:
    """A symbolic size as a number times symbols; no number where it is none such."""
    number, rest = size.node.expr.as_coeff_Mul()
    symbols = sorted((f for f in Mul.make_args(rest) if f.is_Symbol), key=str)
    is_product = number.is_Integer and Mul(*symbols) == rest
    return (int(number) if is_product else None), symbols


def is_pointwise(operator: Any) -> bool:
    """Whether an operator works on each element alone."""
    return torch.Tag.pointwise in getattr(operator, "tags", ())


def check_decomposition(info: torch.Tensor, function: str, is_matrix: bool) -> None:
    """Raises torch's error where a matrix was singular or not positive definite.

    Raises:
        torch.linalg.LinAlgError: a number in ``info`` is not zero.
    """
    torch.ops.aten._linalg_check_errors(info, function, is_matrix=is_matrix)
