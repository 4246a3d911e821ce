"""SciPy: pocketfft, and the LAPACK that its wheel brings."""

from __future__ import annotations

import numpy as np

from benchmarks.cpu.child import Job, Prepared, Refused, serve, touch
from benchmarks.cpu.wire import Array


class SciPy:
    """Functions that SciPy has a plain way to say."""

    def __init__(self) -> None:
        from benchmarks.cpu.functions import scipy_functions

        self._function = scipy_functions.function

    def versions(self) -> dict[str, str]:
        """Of SciPy."""
        import scipy

        return {"scipy": scipy.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Nothing is compiled."""
        function = self._function(job.kind, job.parameters, job.threads)
        if function is None:
            raise Refused("not written for SciPy")
        arguments = job.inputs

        def call() -> list[Array]:
            result = function(*arguments)
            results = [*result] if isinstance(result, tuple) else [np.asarray(result)]
            touch(results)
            return results

        return Prepared(call, lambda kept: list(kept))


if __name__ == "__main__":
    serve(SciPy)
