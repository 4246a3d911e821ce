"""What an installed xladev must not change: programs of JAX that run on JAX's own CPU.

JAX opens every registered platform where JAX_PLATFORMS is unset, so this goes through xladev.
"""

import socket
import subprocess

import pytest

from tests.tools.jax_child import environment, jax_python, run_jax

pytestmark = pytest.mark.long

_BEGIN = "from xladev.frontends.jax import initialize; initialize()\nimport jax, sys\n"

_TWO_PROCESSES = """
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
import jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
names = [n for n in ('xladev_cpu', 'interpreter', 'template_npu') if not jax.config.jax_platforms]
assert {d.platform for n in names for d in jax.devices(n)} == set(names)
mesh = jax.make_mesh((jax.device_count(),), ('x',))
f = jax.shard_map(lambda x: jax.lax.psum(x, 'x'), mesh=mesh, in_specs=P('x'), out_specs=P())
mine = np.asarray([jax.process_index() + 1.0])
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P('x')), mine)
print(jax.process_count(), jax.default_backend(), float(jax.jit(f)(x)[0]))
assert float(jnp.add(jax.device_put(1.0, jax.local_devices(backend='xladev_cpu')[0]), 1.0)) == 2.0
jax.distributed.shutdown()
"""


def _run_two(code: str, platforms: str) -> list[subprocess.CompletedProcess[str]]:
    """Runs a program in two processes, which get an address and their numbers."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    started = [
        subprocess.Popen(
            [jax_python(), "-c", _BEGIN + code, address, str(number)],
            env=environment(platforms), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    return [_end(process) for process in started]


def _end(process: "subprocess.Popen[str]") -> subprocess.CompletedProcess[str]:
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _complaints(lines: str) -> list[str]:
    """Lines of stderr, but for those that JAX writes without xladev, too."""
    return [line for line in lines.splitlines() if not line.startswith("[Gloo]")]


def test_two_processes_compute_together() -> None:
    for done in _run_two(_TWO_PROCESSES, ""):
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "2 cpu 3.0"
        assert not _complaints(done.stderr)


def test_two_processes_compute_together_on_xladev() -> None:
    for done in _run_two(_TWO_PROCESSES, "xladev_cpu"):
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "2 xladev_cpu 3.0"


def test_the_rest_of_jax_stays_as_it_is() -> None:
    out = run_jax(
        """
import os, tempfile, threading
import numpy as np
import jax.extend
with jax.profiler.trace(tempfile.mkdtemp()):
    x = jax.jit(lambda a: a @ a)(jnp.ones((8, 8)))
assert x.devices() == {jax.devices('cpu')[0]} and jax.default_backend() == 'cpu'
assert jax.process_count() == 1 and jax.devices() == jax.devices('cpu')
stop = threading.Event()
def spin():
    while not stop.is_set():
        x.sum().block_until_ready()
threads = [threading.Thread(target=spin) for _ in range(2)]
[t.start() for t in threads]
jax.clear_caches()
stop.set()
[t.join() for t in threads]
child = os.fork()
if not child:
    os._exit(int(np.asarray(x)[0, 0]) - 8)
assert os.waitpid(child, 0)[1] == 0
jax.extend.backend.clear_backends()
print(float(jnp.ones(3).sum()), jax.default_backend())
""",
        "",
        PYTHONWARNINGS="ignore",
    )
    assert out == "3.0 cpu\n"
