"""JAX programs on xladev's platforms, each in a process of its own."""

import pytest

from tests.tools.jax_child import run_jax

pytestmark = pytest.mark.long

PLATFORMS = ("xladev_cpu", "template_npu", "interpreter", "xladev")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_jitted_function(platform: str) -> None:
    shown = run_jax(
        """
f = jax.jit(lambda x, y: ((x + y) * 2, x @ y, jnp.sum(x)))
x = jnp.arange(9.0).reshape(3, 3)
a, b, c = f(x, x)
assert a.tolist() == (4 * x).tolist() and b.shape == (3, 3) and float(c) == 36
print(jax.default_backend(), b[2, 2])
""",
        platform,
    )
    assert shown == f"{platform} 111.0\n"


def test_dtypes_survive_the_trip_and_a_program() -> None:
    run_jax(
        """
import numpy as np
names = '''bool int8 int16 int32 uint8 uint16 uint32 float16 float32 bfloat16 float8_e4m3fn
float8_e5m2 float8_e8m0fnu float4_e2m1fn int4 uint4 complex64'''.split()
for name in names:
    value = np.arange(6).reshape(2, 3).astype(jnp.dtype(name))
    on_device = jax.device_put(value)
    assert on_device.dtype == value.dtype, name
    for got, want in ((on_device, value), (jax.jit(jnp.transpose)(on_device), value.T)):
        assert np.asarray(got).tobytes() == np.ascontiguousarray(want).tobytes(), name
strided = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)[::-1, :, ::2]
assert np.asarray(jax.device_put(strided)).tolist() == strided.tolist()
"""
    )


def test_a_copy_on_its_way_to_another_device_outlives_donation() -> None:
    """The copy waits behind others of its device; meanwhile the array is donated."""
    run_jax(
        """
import numpy as np
first, second = jax.devices()[:2]
negate = jax.jit(lambda x: -x, donate_argnums=0)
for turn in range(10):
    x = jax.device_put(np.full((300, 300), turn, np.float32), first)
    others = [jax.device_put(x + n, second) for n in range(4)]
    copied = jax.device_put(x, second)
    negated = negate(x)
    assert (np.asarray(copied) == turn).all() and (np.asarray(negated) == -turn).all(), turn
""",
        "template_npu",
    )


def test_donated_buffers_end() -> None:
    run_jax(
        """
f = jax.jit(lambda x, y: (x + y, x * 0), donate_argnums=0)
x, y = jnp.ones(8), jnp.ones(8)
seen = f(x, y)[0].tolist()
assert seen == [2.0] * 8 and x.is_deleted() and not y.is_deleted()
try:
    f(x, y)
except (RuntimeError, ValueError) as error:
    assert 'deleted' in str(error), error
else:
    raise SystemExit('a donated buffer was used again')
import numpy as np
z = jnp.arange(8.0)
window = np.asarray(z)
after = jax.jit(lambda v: v + 1, donate_argnums=0)(z)
assert window.tolist() == list(range(8)) and after[0] == 1, 'donation wrote what NumPy shows'
"""
    )


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_linear_algebra_has_rules(platform: str) -> None:
    run_jax(
        """
import numpy as np
a = jnp.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
w, v = jnp.linalg.eigh(a)
assert np.allclose(v * w @ v.T, a, atol=1e-5)
u, s, vt = jnp.linalg.svd(a)
assert np.allclose(u * s @ vt, a, atol=1e-5)
q, r = jnp.linalg.qr(a)
assert np.allclose(q @ r, a, atol=1e-5)
assert np.allclose(sorted(jnp.linalg.eig(a)[0].real), sorted(w), atol=1e-4)
t, z = jax.scipy.linalg.schur(a)
assert np.allclose(z @ t @ z.T, a, atol=1e-4)
p, l, u = jax.scipy.linalg.lu(a)
assert np.allclose(p @ l @ u, a, atol=1e-5)
assert np.allclose(a @ jnp.linalg.solve(a, jnp.ones(3)), 1, atol=1e-5)
""",
        platform,
    )


@pytest.mark.parametrize(("platform", "loops"), [("xladev_cpu", True), ("template_npu", False)])
def test_devices_make_permutations_of_pivots_without_a_loop(platform: str, loops: bool) -> None:
    shown = run_jax(
        """
import numpy as np
a = np.random.default_rng(0).normal(size=(2, 40, 40)).astype(np.float32)
f = jax.jit(lambda a: jax.lax.linalg.lu(a))
print('while' in f.lower(a).as_text())
lu, _, order = map(np.asarray, f(a))
lower = np.tril(lu, -1) + np.eye(40)
assert np.allclose(lower @ np.triu(lu), np.take_along_axis(a, order[..., None], 1), atol=1e-4)
""",
        platform,
    )
    assert shown == f"{loops}\n"


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_callbacks_in_order(platform: str) -> None:
    shown = run_jax(
        """
import numpy as np
from jax.experimental import io_callback
seen = []
def note(x):
    seen.append(int(x))
    return np.int32(x + 1)
@jax.jit
def f(x):
    y = io_callback(note, jax.ShapeDtypeStruct((), jnp.int32), x, ordered=True)
    io_callback(note, jax.ShapeDtypeStruct((), jnp.int32), y * 10, ordered=True)
    jax.debug.print('y is {}', y)
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float32), y * 1.0)
assert abs(float(f(1)) - np.sin(2.0)) < 1e-6
f(5)
jax.effects_barrier()
assert seen == [1, 20, 5, 60], seen
""",
        platform,
    )
    assert sorted(shown.split("\n")[:2]) == ["y is 2", "y is 6"]


def test_errors_come_as_those_of_jax() -> None:
    run_jax(
        """
import numpy as np
def fails(x):
    raise ValueError('on purpose')
f = jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), x))
try:
    jax.block_until_ready(f(1.0) + 1)
except jax.errors.JaxRuntimeError as error:
    assert 'on purpose' in str(error), error
else:
    raise SystemExit('nothing was raised')
try:
    jax.jit(jax.ffi.ffi_call('not_there', jax.ShapeDtypeStruct((), jnp.float32)))(1.0)
except jax.errors.JaxRuntimeError as error:
    assert 'not_there' in str(error) and '<string>:' in str(error), error
else:
    raise SystemExit('an unknown target was taken')
try:
    jax.jit(lambda x: x + 1, compiler_options={'fusion': True, 'not_known': 3})(1.0)
except jax.errors.JaxRuntimeError as error:
    assert "No such compile option: 'not_known'" in str(error), error
else:
    raise SystemExit('an unknown option was taken')
try:
    jnp.zeros((1 << 50,), jnp.int8).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    assert 'RESOURCE_EXHAUSTED' in str(error), error
else:
    raise SystemExit('a petabyte was allocated')
assert float(jnp.ones(3).sum()) == 3
"""
    )


def test_what_compiled_programs_tell() -> None:
    run_jax(
        """
from jax.experimental.serialize_executable import deserialize_and_load, serialize
x = jnp.ones((8, 8))
compiled = jax.jit(lambda x: x @ x).lower(x).compile()
assert compiled.cost_analysis()['flops'] == 2 * 8**3
assert compiled.memory_analysis().argument_size_in_bytes == 256
assert 'dot_general' in compiled.as_text()
again = deserialize_and_load(*serialize(compiled))
assert again(x)[0, 0] == 8
assert jax.devices()[0].memory_stats()['bytes_in_use'] > 0
"""
    )
