"""cuDNN through its front end: graphs of one convolution, the plans that it proposes, and calls.

The front end is the Python package ``nvidia-cudnn-frontend`` from 1.14 on, module ``cudnn``. A
graph is described without a GPU; a handle, and with it all that follows, needs one. Nothing here
has run on a GPU yet: the one that was there lacked the front end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from xladev.platforms.cuda.driver.found import front_end
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import Convolution, Tensor

TYPES: Mapping[str, str] = MappingProxyType({"f32": "FLOAT", "f16": "HALF", "bf16": "BFLOAT16"})
"""Names in the front end's ``data_type``, by element type."""
MOST_PLANS = 8
"""That are built, and so measured."""
_TRANSFORMED = ("FFT", "WINOGRAD", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13")
_COARSE = ("REDUCED_PRECISION_REDUCTION", *_TRANSFORMED)
"""Notes of engines that lose digits: sums in narrow types, products of transformed operands."""
_ROUNDING = ("DOWN_CONVERT_INPUTS", "TENSOR_CORE")
"""Notes of engines that round f32 to tf32."""


class Cudnn:
    """The library on CUDA's current device.

    Raises:
        LibraryError: it is missing, or there is no device.
    """

    def __init__(self) -> None:
        self.module, why = front_end()
        if self.module is None:
            raise LibraryError("cudnn", "NOT_FOUND", why)
        with self.errors("create_handle"):
            self.handle = self.module.create_handle()

    def version(self) -> str:
        """Of the front end and of the library."""
        return f"{self.module.__version__} {self.module.backend_version()}"

    @contextmanager
    def errors(self, function: str) -> Iterator[None]:
        """Makes errors of the front end the interface's."""
        try:
            yield
        except self.module.cudnnGraphNotSupportedError as e:
            raise LibraryError(function, "CUDNN_STATUS_NOT_SUPPORTED", _line(e)) from e
        except (RuntimeError, ValueError, ImportError, IndexError) as e:
            raise LibraryError(function, "FAILED", _line(e)) from e


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def describe(module: Any, handle: Any, call: Convolution) -> Any:
    """The graph of a call; its tensors' numbers are their places among the buffers, from one on.

    Args:
        module: the front end.
        handle: of the library; None describes all the same.
        call: what is computed.
    """
    wide = module.data_type.FLOAT
    narrow = getattr(module.data_type, TYPES[call.writes.dtype])
    graph = module.pygraph(
        name="convolution",
        io_data_type=narrow,
        intermediate_data_type=wide,
        compute_data_type=wide,
        handle=handle,
    )
    operands = [_tensor(graph, n + 1, t, narrow) for n, t in enumerate(call.reads)]
    window = {
        "pre_padding": list(call.padding),
        "post_padding": list(call.padding),
        "stride": list(call.strides),
        "dilation": list(call.dilations),
        "compute_data_type": wide,
    }
    made = _convolved(graph, call.kind, operands, window)
    if call.has_bias:
        made = graph.bias(input=made, bias=_tensor(graph, 3, _bias(call), narrow))
    if call.epilogue.startswith("RELU"):
        made = graph.relu(input=made)
    made.set_output(True)
    made.set_data_type(narrow)
    made.set_dim(list(call.writes.dims))
    made.set_stride(list(call.writes.strides))
    made.set_uid(_written(call))
    return graph


def _written(call: Convolution) -> int:
    """Number of the tensor that is written."""
    return 4 if call.has_bias else 3


def _tensor(graph: Any, number: int, tensor: Tensor, data_type: Any) -> Any:
    return graph.tensor(
        dim=list(tensor.dims), stride=list(tensor.strides), data_type=data_type, uid=number
    )


def _bias(call: Convolution) -> Tensor:
    """One element for each feature, which are contiguous."""
    features, spatial = call.result.dims[1], len(call.strides)
    dims = (1, features, *[1] * spatial)
    return Tensor(call.result.dtype, dims, (features, 1, *[features] * spatial))


def _convolved(graph: Any, kind: str, operands: Sequence[Any], window: Mapping[str, Any]) -> Any:
    first, second = operands
    if kind == "FORWARD":
        return graph.conv_fprop(image=first, weight=second, **window)
    if kind == "BACKWARD_INPUT":
        return graph.conv_dgrad(loss=first, filter=second, **window)
    return graph.conv_wgrad(image=first, loss=second, **window)


class PlannedConvolution:
    """A convolution and the plans that cuDNN proposes for it, best first.

    Args:
        library: the library.
        call: what is computed.

    Raises:
        LibraryError: the library refuses a descriptor, or has no plan.
    """

    def __init__(self, library: Cudnn, call: Convolution) -> None:
        self.library = library
        self.call = call
        module = library.module
        with library.errors("validate"):
            self._graph = describe(module, library.handle, call)
            self._graph.validate()
        with library.errors("build_operation_graph"):
            self._graph.build_operation_graph()
        with library.errors("create_execution_plans"):
            modes = [module.heur_mode.A, module.heur_mode.FALLBACK]
            self._graph.create_execution_plans(modes)
            self._graph.deselect_numeric_notes(_unwanted(module, call))
            self._graph.deselect_workspace_greater_than(call.workspace_nbytes)
            self._graph.check_support()

    def plan(self, name: str) -> int | None:
        """The plan of that name, built; None if it is not proposed, or cannot be built."""
        for index in range(self._graph.get_execution_plan_count()):
            if self._graph.get_plan_name_at_index(index) == name:
                return index if self._is_built(index) else None
        return None

    def name(self, plan: int) -> str:
        """A plan's name, the same in every process with the same version on the same device."""
        return str(self._graph.get_plan_name_at_index(plan))

    def plans(self, most: int = MOST_PLANS) -> list[int]:
        """The first plans that can be built and do with the call's workspace.

        Raises:
            LibraryError: there is none.
        """
        good: list[int] = []
        for index in range(self._graph.get_execution_plan_count()):
            if len(good) < most and self._is_built(index):
                good.append(index)
        if not good:
            why = f"no plan with {self.call.workspace_nbytes} bytes of workspace"
            raise LibraryError("build_plan_at_index", "CUDNN_STATUS_NOT_SUPPORTED", why)
        return good

    def _is_built(self, index: int) -> bool:
        """Builds a plan; false if it is excluded, or its workspace is too large."""
        try:
            with self.library.errors("build_plan_at_index"):
                self._graph.build_plan_at_index(index)
                nbytes = self._graph.get_workspace_size_plan_at_index(index)
        except LibraryError:
            return False
        return int(nbytes) <= self.call.workspace_nbytes

    def enqueue(self, plan: int, addresses: Sequence[int], stream: int) -> None:
        """Enqueues the convolution on a CUDA stream; buffers as `Convolution` lists them.

        Raises:
            LibraryError: the library refuses it.
        """
        *buffers, workspace = addresses
        module, handle = self.library.module, self.library.handle
        with self.library.errors("execute_plan_at_index"):
            module.set_stream(handle, stream)
            tensors = {n + 1: address for n, address in enumerate(buffers)}
            self._graph.execute_plan_at_index(tensors, workspace, plan, handle)


def _unwanted(module: Any, call: Convolution) -> list[Any]:
    """Notes of engines that are not to be used."""
    names = list(_COARSE)
    if call.image.dtype == "f32" and call.compute == "32F":
        names += _ROUNDING
    if call.deterministic:
        names.append("NONDETERMINISTIC")
    return [getattr(module.numerical_note, name) for name in names]


def buffer_nbytes(call: Convolution) -> list[int]:
    """Bytes of each buffer of a convolution, in order."""
    from xladev.hlo.dtype import by_name

    each = by_name(call.writes.dtype).np.itemsize
    bias = [call.result.dims[1]] if call.has_bias else []
    counts = [*(t.size for t in call.reads), *bias, call.writes.size]
    return [*(each * n for n in counts), call.workspace_nbytes]
