"""Runs JAX's own cases of its primitives on an xladev platform and on JAX's CPU, and compares.

    JAX_PLATFORMS=xladev_cpu python -m tests.tools.jax_cases --part 3

The jax package brings some 7,500 cases for the tests of its lowering rules: each a function, and
how to draw its arguments. Here each is compiled and run twice. A case belongs to a part as a
rotating test does. What JAX leaves open, such as the signs of eigenvectors, is not compared.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from ml_dtypes import finfo

from tests.tools.parts import CHOICES, part_of

OWN = "cpu"

EPSILONS = 32.0
"""Largest difference, in units of the dtype's spacing at 1, of the value or a tenth of the largest
value of its array."""

WIDER: Mapping[str, float] = MappingProxyType(
    {
        "cholesky": 1000.0,
        "eig": 500.0,
        "eigh": 500.0,
        "lu": 100.0,
        "qr": 100.0,
        "svd": 500.0,
        "igammac": 64.0,
        "atanh": 200.0,
    }
)
"""The same for solvers, whose errors grow with the matrix (200 by 200 at most), and for functions
that JAX defines by many steps: beside exact values, igammac of its cases is 57 wrong both here and
on JAX's CPU, and 40 apart. JAX's CPU is 117 wrong in an atanh of f64."""

PRODUCTS = ("conv_general_dilated", "dot_general")
"""Where JAX's CPU computes in the dtype of the arguments, though the result's is wider."""


def cases(part: str) -> list[Any]:
    """JAX's cases of a part that its own CPU implements, by name."""
    from jax._src.internal_test_util import test_harnesses

    known = [c for c in test_harnesses.all_harnesses if c.filter(OWN)]
    chosen = [c for c in known if part in ("all", str(part_of(c.fullname)))]
    return sorted(chosen, key=lambda c: str(c.fullname))


def failures(some: list[Any], platform: str) -> Iterator[tuple[str, str]]:
    """Name and reason of each case that does not give what JAX's CPU gives."""
    for case in some:
        print(case.fullname, file=sys.stderr, flush=True)  # shows where a process died
        why = difference(case, platform)
        if why:
            yield case.fullname, why


def difference(case: Any, platform: str) -> str:
    """Why a case fails on a platform; empty where it does not, or where JAX's CPU refuses it."""
    try:
        wanted = results(case, OWN)
    except Exception:  # noqa: BLE001 (whatever JAX raises, nothing is left to compare)
        return ""
    try:
        got = results(case, platform)
    except Exception as error:  # noqa: BLE001 (reported)
        return f"{type(error).__name__}: {error}"
    keys = case.params.get("num_keys") if case.params.get("is_stable") is False else None
    dtype = case.dtype if case.group_name in PRODUCTS else None
    return compare(case.group_name, got[:keys], wanted[:keys], dtype)


def results(case: Any, platform: str) -> list[np.ndarray[Any, Any]]:
    """What a case gives on a platform."""
    import jax

    random = np.random.RandomState(zlib.crc32(case.fullname.encode()))
    with jax.default_device(jax.devices(platform)[0]):
        found = jax.tree.leaves(jax.jit(case.dyn_fun)(*case.dyn_args_maker(random)))
        return [np.asarray(_plain(leaf)) for leaf in found]


def _plain(value: Any) -> Any:
    import jax

    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(value) if is_key else value


# What is compared

Arrays = list[Any]
"""Results; each function below gives arrays that are the same for each right answer."""


def _of_eigh(found: Arrays) -> Arrays:
    vectors, values = found
    return [values, (vectors * values[..., None, :]) @ np.conj(np.swapaxes(vectors, -1, -2))]


def _of_svd(found: Arrays) -> Arrays:
    values, *vectors = found
    if not vectors:
        return [values]
    count = values.shape[-1]
    left, right = vectors[0][..., :count], vectors[1][..., :count, :]
    return [values, (left * values[..., None, :]) @ right]


def _of_eig(found: Arrays) -> Arrays:
    """Eigenvalues come in no order: the polynomials whose roots they are."""
    values = found[0]
    rows = values.reshape(-1, values.shape[-1]) if values.size else []
    return [np.poly(row).astype(values.dtype) for row in rows]


def _of_top(found: Arrays) -> Arrays:
    """Equal values may come from either of their places."""
    return found[:1]


_DETERMINED: Mapping[str, Callable[[Arrays], Arrays]] = MappingProxyType(
    {"approx_top_k": _of_top, "eig": _of_eig, "eigh": _of_eigh, "svd": _of_svd}
)


def compare(primitive: str, got: Arrays, wanted: Arrays, computed: Any = None) -> str:
    """Where the results of a primitive differ; empty if they agree.

    Args:
        primitive: its name.
        got: results.
        wanted: what they should be.
        computed: the dtype in which ``wanted`` was computed, if not its own.
    """
    determined = _DETERMINED.get(primitive, list)
    limit = WIDER.get(primitive, EPSILONS)
    pairs = zip(determined(got), determined(wanted), strict=True)
    return next(filter(None, (_compare(g, w, limit, computed) for g, w in pairs)), "")


def _compare(got: Any, wanted: Any, limit: float, computed: Any) -> str:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    if not got.size:
        return ""
    if got.dtype.kind in "biu":
        count = np.count_nonzero(got != wanted)
        return f"{count} of {got.size} values differ" if count else ""
    spacings = [_epsilon(wanted.dtype), 0.0 if computed is None else _epsilon(computed)]
    error = _error(got, wanted) / max(spacings)
    return f"{error:.0f} epsilons from JAX's CPU, more than {limit:.0f}" if error > limit else ""


def _epsilon(dtype: Any) -> float:
    kind = np.dtype(dtype).kind
    return 0.0 if kind in "biu" else float(finfo(dtype).eps)  # type: ignore[no-untyped-call]


def _error(got: Any, wanted: Any) -> float:
    """Largest difference of floats, relative to the scale that `EPSILONS` names."""
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, wanted = got.astype(wide), wanted.astype(wide)
    differ = (got != wanted) & ~(np.isnan(got) & np.isnan(wanted))
    if (np.isfinite(got) != np.isfinite(wanted))[differ].any() or np.isinf(wanted[differ]).any():
        return float("inf")
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    scale = np.maximum(np.abs(wanted[differ]), 0.1 * largest)
    return float((np.abs(got[differ] - wanted[differ]) / scale).max(initial=0.0))


def main() -> None:
    """See the module."""
    import jax

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--part", default="all", choices=CHOICES)
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th case of the part, from I")
    given = parser.parse_args()
    first, step = map(int, given.shard.split("/"))
    jax.config.update("jax_enable_x64", True)
    chosen = cases(given.part)[first::step]
    failed = list(failures(chosen, jax.default_backend()))
    for name, why in failed:
        print(f"{name}\n    {why}")
    print(f"{len(chosen) - len(failed)} of {len(chosen)} cases pass on {jax.default_backend()}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
