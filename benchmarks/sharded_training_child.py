"""One way to cut the training of `examples/jax_sharded`, measured in a process of its own.

Its argument is the way; it prints JSON. JAX_PLATFORMS says the platform, which has eight devices;
`benchmarks.sharded_training` runs it, and so does a test.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.collective_traffic import collective_traffic
from xladev.hlo.text import parse_module

EXAMPLE = Path(__file__).parents[1] / "examples/jax_sharded/train.py"
_TRIPS = re.compile(r'%([\w.\-]+) = .* while\(.*"known_trip_count":\{"n":"(\d+)"\}')


def example() -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("jax_sharded_train", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(way: str) -> dict[str, Any]:
    """Traffic and memory of one step, and the sizes that theory needs."""
    import jax
    import numpy as np

    train = example()
    devices = jax.devices()[:8]
    mesh = jax.sharding.Mesh(np.array(devices).reshape(4, 2), ("x", "y"))
    run, state, words = train.prepared(jax.random.key(0), train.layouts(mesh)[way], mesh)
    compiled = run.lower(state, words).compile()
    text = compiled.as_text()
    loops = {name: int(count) for name, count in _TRIPS.findall(text)}
    traffic = collective_traffic(parse_module(text), len(devices), loops or None)
    weights = {name: w.nbytes for name, w in state[0].items()}
    jax.block_until_ready(compiled(state, words))
    statistics = devices[-1].memory_stats() or {}
    return {
        "counts": dict(traffic.counts),
        "nbytes": dict(traffic.nbytes),
        "held": compiled.memory_analysis().argument_size_in_bytes,
        "peak": statistics.get("peak_bytes_in_use", 0),
        "weights": weights,
        "activations": train.BATCH * train.LENGTH * train.WIDTH * 4,
        "words": words.nbytes,
        "layers": train.LAYERS,
    }


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1])))
