"""A training step of a transformer, cut along its examples: sums of gradients hide under kernels.

JAX writes the program; it is compiled and run for two asynchronous devices. What is asserted are
orders of events, and that the timeline shows them, not times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.async_npu.driver.library import c_compiler
from tests.tools.jax_child import ROOT, jax_python

pytestmark = pytest.mark.long

STEP = """
import json, os, sys, threading
from pathlib import Path
sys.path.insert(0, "examples/jax_sharded")
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import train
LAYERS, BATCH = 4, 4
keys = jax.random.split(jax.random.key(0), LAYERS)
first = train.initial_weights(keys[0])
layers = [{n: w[0] for n, w in train.initial_weights(k).items()
           if n not in ("embedding", "position")} for k in keys]
weights = {"embedding": first["embedding"], "position": first["position"], "layers": layers}

def loss(weights, words):
    x = weights["embedding"][words] + weights["position"]
    for layer in weights["layers"]:
        x, _ = train.layer(lambda x: x, x, layer)
    scores = jax.nn.log_softmax(train.normalized(x) @ weights["embedding"].T)
    following = jnp.roll(words, -1, axis=1)
    return -jnp.take_along_axis(scores, following[..., None], -1)[..., 0].mean()

def step(weights, words):
    value, gradients = jax.value_and_grad(loss)(weights, words)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

words = np.random.default_rng(0).integers(0, train.WORDS, (BATCH, train.LENGTH)).astype(np.int32)
mesh = Mesh(np.array(jax.devices()), ("x",))
whole, cut = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
made = jax.jit(step, in_shardings=(whole, cut), out_shardings=whole)
text = made.lower(weights, words).compiler_ir("hlo").as_serialized_hlo_module_proto()
want = jax.tree.leaves(jax.jit(step)(weights, words))
given = [np.asarray(w) for w in jax.tree.leaves(weights)]

import xladev
from tests.async_npu import plugin
from xladev.compiler.options import CompileOptions
from tests.async_npu.kernels import AsyncKernel
from xladev.compiler.program.thunks import CollectiveStart, RunExecutable
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.profiling.timeline import profile
from xladev.profiling.timeline.file import read_trace
from xladev.profiling.timeline.questions import QUESTIONS
from xladev.profiling.timeline.tables import ask, open_tables
from xladev.runtime.registry import Registry, using_registry
registry = Registry(environment={"XLADEV_PLUGINS": "-async_npu"})
registry.register(*plugin.xladev_platforms())
registry.platform("async_npu").provide_devices(2)

ran, counted = [0], threading.Condition()
run_kernel, run_collective = AsyncKernel.run, HostCommunicator.run
def count(kernel, buffers):
    run_kernel(kernel, buffers)
    with counted:
        ran[0] += 1
        counted.notify_all()
def held(group, who, operand, result, call):
    # the first sum ends once most kernels of the step have run on both devices
    if who.name.startswith(begun[0].name + "#"):
        with counted:
            if not counted.wait_for(lambda: ran[0] >= 0.7 * whole_step, timeout=60):
                raise RuntimeError(f"{ran[0]} of {whole_step} kernels ran")
    run_collective(group, who, operand, result, call)
def check(results):
    for mine in results:
        for got, right in zip(mine, want, strict=True):
            np.testing.assert_allclose(got.numpy(), right, rtol=2e-3, atol=2e-5)

with using_registry(registry):
    options = CompileOptions(num_partitions=2, all_reduce_bucket=BUCKET)
    program = xladev.compile(text, "async_npu", options)
    order = program.program.entry.thunks
    begun = [t for t in order if isinstance(t, CollectiveStart)]
    regions_meanwhile = []
    for start in begun:
        names = [getattr(t, "name", "") for t in order]
        at = order.index(start)
        between = order[at : names.index(start.name, at + 1)]
        regions_meanwhile.append(sum(isinstance(t, RunExecutable) for t in between))
    rows = [[*given, part] for part in np.split(words, 2)]
    AsyncKernel.run = count
    check(program.execute_leaves(rows))
    whole_step, ran[0] = ran[0], 0
    HostCommunicator.run = held
    with profile(TRACE):
        check(program.execute_leaves(rows))
    sql = QUESTIONS["collectives"].sql.replace(":limit", "99")
    names, found = ask(open_tables(read_trace(Path(TRACE))), sql)
    told = [dict(zip(names, row)) for row in found]
    print(json.dumps({"meanwhile": regions_meanwhile, "arrays": [len(t.arguments) for t in begun],
                      "first": begun[0].name if begun else "", "told": told}))
"""


def told(bucket: int, trace: Path) -> Any:
    """What a process finds that compiles and runs the step with buckets of so many bytes."""
    if c_compiler() is None:
        pytest.skip("there is no C compiler for the driver of async_npu")
    code = STEP.replace("BUCKET", str(bucket)).replace("TRACE", repr(str(trace)))
    paths = [str(ROOT), *(p for p in sys.path if p.endswith("-packages"))]
    around = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(paths),
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    command = [jax_python(), "-c", code]
    done = subprocess.run(command, env=around, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_buckets_of_gradients_are_summed_under_the_backward_pass(tmp_path: Path) -> None:
    found = told(30_000, tmp_path / "t.json")
    assert sum(n > 0 for n in found["meanwhile"]) >= 6  # of two buckets for each of four layers
    assert sum(found["arrays"]) >= 6 * 4  # six weights of each of four layers
    rows = [row for row in found["told"] if row["collective"] == found["first"]]
    assert {row["process"] for row in rows} == {"async_npu:0", "async_npu:1"}
    assert all(row["hidden_us"] > 0 for row in rows)  # most of the step ran within it
