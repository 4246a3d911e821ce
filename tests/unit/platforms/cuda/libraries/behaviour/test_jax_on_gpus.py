"""Programs as JAX lowers them for NVIDIA's GPUs, on ``cuda_emu``, against JAX on the CPU."""

import subprocess

import numpy as np
import pytest

from tests.tools.jax_child import jax_python
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.hlo.proto import read_module

pytestmark = pytest.mark.long

PROGRAMS = {
    "cholesky": "jnp.linalg.cholesky(a @ jnp.conj(a.swapaxes(1, 2)) + jnp.eye(4))",
    "eigh": "jnp.linalg.eigh(a)",
    "lstsq": "jnp.linalg.lstsq(a[0, :, :3], a[0, :, 3])[0]",
    "lu": "jax.lax.linalg.lu(a[:, :3])",
    "qr": "jnp.linalg.qr(a[:, :, :3], mode='complete')",
    "solve": "jnp.linalg.solve(a, a[:, :, :2])",
    "svd": "jnp.linalg.svd(a[:, :3], full_matrices=False)",
    "svd by QR steps": "jax.lax.linalg.svd(a[:, :3], algorithm=jax.lax.linalg.SvdAlgorithm.QR)",
    "tridiagonal": "jax.lax.linalg.tridiagonal(a + jnp.conj(a.swapaxes(1, 2)))",
}
_EXPORT = """
import sys
import jax, jax.numpy as jnp, numpy as np
folder, *programs = sys.argv[1:]
rng = np.random.default_rng(0)
a = (rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4))).astype(np.complex64)
for number, program in enumerate(programs):
    f = jax.jit(eval('lambda a: ' + program))
    lowered = f.trace(a).lower(lowering_platforms=('cuda',)).compiler_ir('hlo')
    with open(f'{folder}/{number}.pb', 'wb') as file:
        file.write(lowered.as_serialized_hlo_module_proto())
    np.savez(f'{folder}/{number}.npz', a, *jax.tree.leaves(f(a)))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    command = [jax_python(), "-c", _EXPORT, str(folder), *PROGRAMS.values()]
    environment = {"JAX_PLATFORMS": "cpu", "PATH": "", "HOME": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, exported, emulated):
    """Vectors may differ by signs and phases: magnitudes are compared."""
    number = list(PROGRAMS).index(name)
    module = read_module((exported / f"{number}.pb").read_bytes())
    a, *wanted = np.load(exported / f"{number}.npz").values()
    results = client.compile(module, emulated, CompileOptions(strict=True))(a)
    found = results if isinstance(results, tuple) else (results,)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.abs(np.asarray(one)), np.abs(other), atol=2e-5)
