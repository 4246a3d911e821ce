"""Emulated cuDNN: what its descriptors and engines ask for, and convolutions as sums over windows.

A wrong descriptor is a bad parameter, one that no engine has is not supported, as from the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.platforms.cuda.driver.emulated_calls import Array, Buffers, Emulation
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.driver.tf32 import cut_to_tf32
from xladev.platforms.cuda.libraries.calls import Convolution, Tensor
from xladev.platforms.cuda.libraries.convolution_axes import result_size

BAD = "CUDNN_STATUS_BAD_PARAM"
NOT_SUPPORTED = "CUDNN_STATUS_NOT_SUPPORTED"
ALIGNMENT = 16
"""Bytes that addresses are multiples of, as tensors are described."""
_CHECKED = "cudnnBackendFinalize"
_EXECUTED = "cudnnBackendExecute"
_VECTOR: Mapping[str, int] = MappingProxyType({"f32": 4, "bf16": 8, "f16": 8})
"""Elements of 16 bytes, by type."""
_EPILOGUES = ("DEFAULT", "BIAS", "RELU", "RELU_BIAS")


def _refused(status: str, why: str) -> LibraryError:
    return LibraryError(_CHECKED, status, why)


def _check(call: Convolution) -> None:
    tensors = {"image": call.image, "kernel": call.kernel, "result": call.result}
    for name, tensor in tensors.items():
        _check_tensor(name, tensor, call.image)
    if call.kind not in ("FORWARD", "BACKWARD_INPUT", "BACKWARD_KERNEL"):
        raise _refused(BAD, f"no convolution {call.kind}")
    _check_window(call)
    _check_features(call)
    _check_types(call)
    _check_epilogue(call)


def _check_tensor(name: str, tensor: Tensor, image: Tensor) -> None:
    rank = len(tensor.dims)
    if rank not in (4, 5) or len(tensor.strides) != rank or rank != len(image.dims):
        raise _refused(BAD, f"{name} has {rank} dimensions and {len(tensor.strides)} strides")
    if min(*tensor.dims, *tensor.strides) < 1:
        raise _refused(BAD, f"{name} has a dimension or stride of less than one")
    if _packed(tensor, _first(rank)) or _packed(tensor, _last(rank)):
        return
    raise _refused(NOT_SUPPORTED, f"{name} is not packed, features first or last")


def _first(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def _last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _packed(tensor: Tensor, order: tuple[int, ...]) -> bool:
    """Whether elements are without gaps, in that order of dimensions; long ones alone count."""
    step = 1
    for n in reversed(order):
        if tensor.dims[n] > 1 and tensor.strides[n] != step:
            return False
        step *= tensor.dims[n]
    return True


def _check_window(call: Convolution) -> None:
    spatial = len(call.image.dims) - 2
    if {len(call.strides), len(call.padding), len(call.dilations)} != {spatial}:
        raise _refused(BAD, f"a window of other than {spatial} dimensions")
    if min(*call.strides, *call.dilations) < 1 or min(call.padding) < 0:
        raise _refused(BAD, "a stride or dilation below one, or negative padding")
    sizes = zip(call.image.dims[2:], call.kernel.dims[2:], call.result.dims[2:], strict=True)
    steps = zip(call.strides, call.padding, call.dilations, strict=True)
    for (image, kernel, result), (stride, padding, dilation) in zip(sizes, steps, strict=True):
        wanted = result_size(image, kernel, stride, padding, dilation)
        if result != wanted:
            raise _refused(BAD, f"the result has size {result} where the window makes {wanted}")


def _check_features(call: Convolution) -> None:
    inputs, outputs = call.image.dims[1], call.kernel.dims[0]
    if inputs % call.kernel.dims[1] or outputs % (inputs // call.kernel.dims[1]):
        raise _refused(BAD, f"{inputs} and {outputs} features do not make groups")
    if call.result.dims[:2] != (call.image.dims[0], outputs):
        raise _refused(BAD, "batch or features of the result are not those of its operands")


def _check_types(call: Convolution) -> None:
    found = {t.dtype for t in (call.image, call.kernel, call.result)}
    if len(found) > 1 or not found <= set(_VECTOR):
        raise _refused(NOT_SUPPORTED, f"types {', '.join(sorted(found))}")
    name, tensors = call.image.dtype, (call.image, call.kernel, call.result)
    if call.compute not in ("32F", "32F_FAST_TF32") or (name != "f32" and call.compute != "32F"):
        raise _refused(NOT_SUPPORTED, f"{name} in {call.compute}")
    if len({_is_last(t) for t in tensors} - {None}) > 1:
        raise _refused(NOT_SUPPORTED, "features are first in one tensor and last in another")
    if _is_fast(call) and any(_is_last(t) is False for t in tensors):
        raise _refused(NOT_SUPPORTED, "tensor cores want features last")


def _is_last(tensor: Tensor) -> bool | None:
    """Whether features are last; None where both orders are the same."""
    rank = len(tensor.dims)
    last = _packed(tensor, _last(rank))
    return None if last and _packed(tensor, _first(rank)) else last


def _is_fast(call: Convolution) -> bool:
    return call.image.dtype != "f32" or call.compute == "32F_FAST_TF32"


def _check_epilogue(call: Convolution) -> None:
    if call.epilogue not in _EPILOGUES:
        raise _refused(BAD, f"epilogue {call.epilogue}")
    if call.epilogue == "DEFAULT":
        return
    if call.kind != "FORWARD":
        raise _refused(NOT_SUPPORTED, f"epilogue {call.epilogue} of {call.kind}")
    vector = _VECTOR[call.image.dtype]
    features = (call.image.dims[1], call.result.dims[1])
    if not _is_fast(call) or call.groups > 1 or any(n % vector for n in features):
        why = f"an epilogue wants one group, tensor cores and features in multiples of {vector}"
        raise _refused(NOT_SUPPORTED, why)


def _run(call: Convolution, buffers: Buffers) -> None:
    places = [buffers.addresses[n] for n in range(4 if call.has_bias else 3)]
    if any(address % ALIGNMENT for address in places):
        raise buffers.refuse(f"an address is not aligned to {ALIGNMENT}")
    first, second = (
        _wide(_strided(buffers, n, tensor), call.compute) for n, tensor in enumerate(call.reads)
    )
    found = _COMPUTED[call.kind](call, first, second)
    if call.has_bias:
        bias = buffers.array(2, call.result.dtype, call.result.dims[1]).astype(np.float32)
        found = found + bias.reshape(-1, *[1] * (found.ndim - 2))
    if call.epilogue.startswith("RELU"):
        found = np.maximum(found, 0)
    written = _strided(buffers, len(places) - 1, call.writes)
    written[...] = found.astype(written.dtype)


def _strided(buffers: Buffers, number: int, tensor: Tensor) -> Array:
    """A buffer as its tensor; what is packed is in as many elements as it has."""
    flat = buffers.array(number, tensor.dtype, tensor.size)
    steps = [stride * flat.itemsize for stride in tensor.strides]
    found: Array = np.ndarray(tensor.dims, flat.dtype, buffer=flat.view(np.uint8), strides=steps)
    return found


def _wide(x: Array, compute: str) -> Array:
    wide = x.astype(np.float32)
    return cut_to_tf32(wide) if "TF32" in compute else wide


def _taps(call: Convolution) -> Iterator[tuple[Any, Any]]:
    """For each element of the window, what it meets of a padded image, and itself: as indices."""
    for at in np.ndindex(call.kernel.dims[2:]):
        steps = zip(at, call.strides, call.dilations, call.result.dims[2:], strict=True)
        met = [slice(k * d, k * d + (n - 1) * s + 1, s) for k, s, d, n in steps]
        yield (..., *met), (..., *at)


def _padding(call: Convolution) -> list[tuple[int, int]]:
    return [(0, 0), (0, 0), *((p, p) for p in call.padding)]


def _grouped(x: Array, groups: int, axis: int) -> Array:
    """``axis`` split into groups and their members."""
    dims = list(x.shape)
    return x.reshape(*dims[:axis], groups, dims[axis] // groups, *dims[axis + 1 :])


def _forward(call: Convolution, image: Array, kernel: Array) -> Array:
    padded = _grouped(np.pad(image, _padding(call)), call.groups, 1)
    kernels = _grouped(kernel, call.groups, 0)
    total: Array = np.zeros(_grouped_dims(call.result, call.groups), np.float32)
    for met, at in _taps(call):
        total += np.einsum("ngc...,gkc->ngk...", padded[met], kernels[at])
    return total.reshape(call.result.dims)


def _backward_input(call: Convolution, loss: Array, kernel: Array) -> Array:
    losses, kernels = _grouped(loss, call.groups, 1), _grouped(kernel, call.groups, 0)
    wide = [n + 2 * p for n, p in zip(call.image.dims[2:], call.padding, strict=True)]
    dims = _grouped_dims(call.image, call.groups)
    total: Array = np.zeros((*dims[:3], *wide), np.float32)
    for met, at in _taps(call):
        total[met] += np.einsum("ngk...,gkc->ngc...", losses, kernels[at])
    for n, (size, padding) in enumerate(zip(call.image.dims[2:], call.padding, strict=True)):
        total = total.take(range(padding, padding + size), axis=n + 3)
    return total.reshape(call.image.dims)


def _backward_kernel(call: Convolution, image: Array, loss: Array) -> Array:
    padded = _grouped(np.pad(image, _padding(call)), call.groups, 1)
    losses = _grouped(loss, call.groups, 1)
    spatial = "xyz"[: len(call.strides)]
    form = f"ngc{spatial},ngk{spatial}->gkc"
    total: Array = np.zeros(call.kernel.dims, np.float32)
    kernels = _grouped(total, call.groups, 0)
    for met, at in _taps(call):
        kernels[at] = np.einsum(form, padded[met], losses, optimize=True)
    return total


def _grouped_dims(tensor: Tensor, groups: int) -> tuple[int, ...]:
    batch, features, *spatial = tensor.dims
    return (batch, groups, features // groups, *spatial)


_COMPUTED: Mapping[str, Callable[[Convolution, Array, Array], Array]] = MappingProxyType(
    {
        "FORWARD": _forward,
        "BACKWARD_INPUT": _backward_input,
        "BACKWARD_KERNEL": _backward_kernel,
    }
)

CONVOLUTION = Emulation(_EXECUTED, BAD, lambda call: 4 if call.has_bias else 3, _check, _run)
