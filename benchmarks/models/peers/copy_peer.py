"""No library, but a copy of as many bytes as a step of decoding reads of its weights.

A model that reads its weights once cannot take less time than memory needs for that; this says how
long the machine takes to move them, with as many threads.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np

from benchmarks.cpu.child import Job, Prepared, Refused, serve
from benchmarks.cpu.wire import Array
from benchmarks.models.model_rows import FACTS


class Copy:
    """NumPy's copy of bytes, each thread a part."""

    def versions(self) -> dict[str, str]:
        """Of NumPy."""
        return {"numpy": np.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Allocates both ends.

        Raises:
            Refused: the model reads its weights more than once, or other things as well.
        """
        path = Path(job.parameters["folder"]) / FACTS
        nbytes = json.loads(path.read_text())["read_nbytes"] if path.exists() else 0
        if not nbytes:
            raise Refused("no step of decoding")
        source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        parts = list(zip(*(np.array_split(a, job.threads) for a in (target, source)), strict=True))
        threads = ThreadPoolExecutor(job.threads)

        def call() -> list[tuple[Array, Array]]:
            if len(parts) == 1:
                np.copyto(*parts[0])
            else:
                wait([threads.submit(np.copyto, *part) for part in parts])
            return parts

        return Prepared(call, lambda _: [], memory={"copied": nbytes})


if __name__ == "__main__":
    serve(Copy)
