"""As much of cuDNN's front end as the driver calls; the emulation computes, on host memory.

Names and keywords are those of nvidia-cudnn-frontend 1.14 to 1.32; a test describes the same graphs
to the real module where it is installed. Calls in a wrong order, virtual tensors among the buffers
and others missing there are errors.
"""

import ctypes
from types import SimpleNamespace

import numpy as np

from tests.unit.platforms.cuda.driver import fake_cupy
from xladev.platforms.cuda.driver.cudnn import TYPES
from xladev.platforms.cuda.driver.emulated_calls import EmulatedCall
from xladev.platforms.cuda.driver.emulated_cudnn import CONVOLUTION, NOT_SUPPORTED
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries import calls

NOTES = (
    "DOWN_CONVERT_INPUTS", "FFT", "NONDETERMINISTIC", "REDUCED_PRECISION_REDUCTION", "TENSOR_CORE",
    "WINOGRAD", "WINOGRAD_TILE_13x13", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6",
)  # fmt: skip


class GraphNotSupportedError(Exception):
    pass


class Plan:
    def __init__(self, name, notes=(), workspace=0, ms=1.0, builds=True):
        self.name, self.notes, self.workspace = name, set(notes), workspace
        self.ms, self.builds = ms, builds


class Tensor:
    """Of a graph; a result is virtual until it is made an output."""

    def __init__(self, dim, stride, data_type, uid, is_virtual):
        self.dim, self.stride, self.data_type = dim, stride, data_type
        self.uid, self.is_virtual = uid, is_virtual

    def set_output(self, value):
        self.is_virtual = not value

    def set_data_type(self, value):
        self.data_type = value

    def set_dim(self, value):
        self.dim = value

    def set_stride(self, value):
        self.stride = value

    def set_uid(self, value):
        self.uid = value


class HostMemory:
    def bytes_at(self, address, nbytes):
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


class Handle:
    stream = None


class Graph:
    """One convolution, perhaps with a bias and ReLU."""

    def __init__(self, *, name, io_data_type, intermediate_data_type, compute_data_type, handle):
        assert intermediate_data_type == compute_data_type == "FLOAT"
        self.io_data_type, self.handle = io_data_type, handle
        self.tensors, self.node, self.epilogue, self.state = [], None, "", "described"
        self.unwanted, self.limit, self.built = set(), None, set()

    def tensor(self, *, dim, stride, data_type, uid):
        return self._kept(Tensor(dim, stride, data_type, uid, False))

    def _kept(self, tensor):
        self.tensors.append(tensor)
        return tensor

    def conv_fprop(self, *, image, weight, **window):
        return self._convolved("FORWARD", {"image": image, "kernel": weight}, **window)

    def conv_dgrad(self, *, loss, filter, **window):
        return self._convolved("BACKWARD_INPUT", {"result": loss, "kernel": filter}, **window)

    def conv_wgrad(self, *, image, loss, **window):
        return self._convolved("BACKWARD_KERNEL", {"image": image, "result": loss}, **window)

    def _convolved(
        self, kind, operands, *, pre_padding, post_padding, stride, dilation, compute_data_type
    ):
        assert pre_padding == post_padding
        assert compute_data_type == "FLOAT"
        self.node = kind, operands, stride, pre_padding, dilation
        return self._kept(Tensor(None, None, None, None, True))

    def bias(self, *, input, bias):
        assert input.is_virtual
        assert bias.dim == [1, bias.dim[1], *[1] * (len(bias.dim) - 2)]
        self.epilogue = "BIAS"
        return self._kept(Tensor(None, None, None, None, True))

    def relu(self, *, input):
        assert input.is_virtual
        self.epilogue = "RELU_BIAS" if self.epilogue else "RELU"
        return self._kept(Tensor(None, None, None, None, True))

    def _step(self, before, after):
        if self.state != before:
            raise RuntimeError(f"{after}: the graph is {self.state}, not {before}")
        self.state = after

    def validate(self):
        self._step("described", "valid")
        try:
            CONVOLUTION.check(self.call())
        except LibraryError as e:
            kind = GraphNotSupportedError if e.status == NOT_SUPPORTED else RuntimeError
            raise kind(str(e)) from e

    def call(self):
        """What the graph computes, as the backend would have asked for it."""
        kind, operands, *window = self.node
        (made,) = [t for t in self.tensors[2:] if not t.is_virtual and t.uid == len(self.bound())]
        missing = ({"image", "kernel", "result"} - set(operands)).pop()
        tensors = {k: self._plain(t) for k, t in {**operands, missing: made}.items()}
        compute = "32F" if tensors["image"].dtype != "f32" else self._compute()
        return calls.Convolution(
            kind, tensors["image"], tensors["kernel"], tensors["result"], *map(tuple, window),
            compute, self.epilogue or "DEFAULT",
        )  # fmt: skip

    def _compute(self):
        return "32F_FAST_TF32" if self.tensors[0].stride[1] == 1 else "32F"

    def _plain(self, tensor):
        name = {v: k for k, v in TYPES.items()}[tensor.data_type]
        return calls.Tensor(name, tuple(tensor.dim), tuple(tensor.stride))

    def bound(self):
        """Numbers of what is no virtual tensor."""
        return {t.uid for t in self.tensors if not t.is_virtual}

    def build_operation_graph(self):
        self._step("valid", "built")

    def create_execution_plans(self, modes):
        assert modes == ["A", "FALLBACK"]
        self._step("built", "planned")

    def deselect_numeric_notes(self, notes):
        assert self.state == "planned"
        self.unwanted |= set(notes)

    def deselect_workspace_greater_than(self, nbytes):
        self.limit = nbytes

    def check_support(self):
        if not any(self._is_good(p) for p in plans):
            raise GraphNotSupportedError("no engine")

    def _is_good(self, plan):
        return plan.builds and not plan.notes & self.unwanted

    def get_execution_plan_count(self):
        return len(plans)

    def get_plan_name_at_index(self, index):
        return plans[index].name

    def build_plan_at_index(self, index):
        if not self._is_good(plans[index]):
            raise GraphNotSupportedError(f"plan {plans[index].name} is deselected")
        self.built.add(index)

    def get_workspace_size_plan_at_index(self, index):
        return plans[index].workspace if index in self.built else 0

    def execute_plan_at_index(self, tensors, workspace, index, handle):
        if index not in self.built or handle is not self.handle:
            raise RuntimeError("the plan is not built, or another handle's")
        if set(tensors) != self.bound():
            raise ValueError(f"the variant pack has {set(tensors)}, the graph {self.bound()}")
        executed.append(plans[index].name)
        call = self.call()
        addresses = [*(tensors[n] for n in sorted(tensors)), workspace]

        def work():
            fake_cupy.streams[handle.stream].ms += plans[index].ms
            EmulatedCall("k", call, CONVOLUTION).run(HostMemory(), addresses)

        fake_cupy.streams[handle.stream].put(work)


plans, executed = [], []


def make(*proposed):
    """A module whose library proposes these plans."""
    plans[:], executed[:] = proposed or [Plan("eng0")], []
    names = {name: name for name in NOTES}

    def set_stream(handle, stream):
        handle.stream = stream

    return SimpleNamespace(
        __version__="1.32.0", backend_version=lambda: 91300, create_handle=Handle,
        set_stream=set_stream, pygraph=Graph, cudnnGraphNotSupportedError=GraphNotSupportedError,
        data_type=SimpleNamespace(**{v: v for v in TYPES.values()}),
        heur_mode=SimpleNamespace(A="A", FALLBACK="FALLBACK"),
        numerical_note=SimpleNamespace(**names),
    )  # fmt: skip
