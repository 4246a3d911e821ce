"""NumPy, with the BLAS that its wheel brings."""

from __future__ import annotations

import numpy as np

from benchmarks.cpu.child import Job, Prepared, Refused, serve, touch
from benchmarks.cpu.functions.numpy_functions import FUNCTIONS
from benchmarks.cpu.wire import Array


class Numpy:
    """Functions that NumPy has a plain way to say."""

    def versions(self) -> dict[str, str]:
        """Of NumPy."""
        return {"numpy": np.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Nothing is compiled."""
        make = FUNCTIONS.get(job.kind)
        function = make(job.parameters) if make else None
        if function is None:
            raise Refused("not written for NumPy")
        arguments = job.inputs

        def call() -> list[Array]:
            result = function(*arguments)
            results = [*result] if isinstance(result, tuple) else [np.asarray(result)]
            touch(results)
            return results

        return Prepared(call, lambda kept: list(kept))


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve(Numpy)
