"""Programs over several devices: what is local, and what is cut; shardings are told."""

from tests.tools.jax_child import run_jax

_BEGIN = """
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ('x', 'y'))
S = lambda *axes: NamedSharding(mesh, P(*axes))
X = np.arange(32, dtype=np.float32).reshape(8, 4)
def check(made, value, *axes):
    assert made.sharding.is_equivalent_to(S(*axes), made.ndim), made.sharding
    np.testing.assert_array_equal(np.asarray(made), value)
    for shard in made.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), np.asarray(value)[shard.index])
mapped = lambda f, i, o, **how: jax.jit(shard_map(f, mesh=mesh, in_specs=i, out_specs=o), **how)
"""


def _run(code: str) -> None:
    run_jax(_BEGIN + code, XLADEV_CPU_DEVICES="4")


def test_what_is_local_runs() -> None:
    _run(
        """
put = lambda *axes: jax.device_put(X, S(*axes))
check(jax.jit(lambda a: a + 1)(put()), X + 1)
check(mapped(lambda a: a * 2, P('x', 'y'), P('x', 'y'))(put('x', 'y')), X * 2, 'x', 'y')
check(mapped(lambda a: a * 2, P('x'), P('x'))(X), X * 2, 'x')
total = mapped(lambda a: lax.psum(a, 'x'), P('x'), P())
check(total(put('x')), X[:4] + X[4:])
check(total(put()), X[:4] + X[4:])
check(mapped(lambda a: a * 2, P('x'), P('x'), out_shardings=S())(X), X * 2)
given = put('x')
check(mapped(lambda a: a * 2, P('x'), P('x'), donate_argnums=0)(given), X * 2, 'x')
assert given.is_deleted()
two = mapped(lambda a, b: (a @ b.T, b), (P('x'), P(None)), (P('x'), P(None)))
product, whole = two(put('x'), X)
check(product, X @ X.T, 'x')
check(whole, X)
some = jax.jit(shard_map(lambda a: a + lax.axis_index('x'), mesh=mesh, in_specs=P('x'),
                         out_specs=P('x'), axis_names={'x'}))
check(some(put('x')), X + np.repeat([0, 1], 4)[:, None], 'x')
double = shard_map(lambda b: b * 2, mesh=mesh, in_specs=P('x'), out_specs=P('x'))
loop = jax.jit(lambda a: lax.fori_loop(0, 3, lambda i, c: double(c), a))
np.testing.assert_array_equal(np.asarray(loop(put())), X * 8)
shapes = []
mapped(lambda a: jax.debug.callback(lambda v: shapes.append(v.shape), a), P('x'), P())(X)
jax.effects_barrier()
assert shapes == [(4, 4)] * 4, 'a program without results has shardings of parameters all the same'
check(mapped(lambda: lax.axis_index('x')[None], (), P('x'))(), [0, 1], 'x')
mean = jax.pmap(lambda a: a - lax.pmean(a, 'i'), axis_name='i')(X[:4])
np.testing.assert_array_equal(np.asarray(mean), X[:4] - X[:4].mean(0))
assert mean.sharding.spec == P('i'), mean.sharding
one = Mesh(np.array(jax.devices()[:1]), ('z',))
alone = jax.jit(lambda a: a + 1)(jax.device_put(X, NamedSharding(one, P('z'))))
np.testing.assert_array_equal(np.asarray(alone), X + 1)
"""
    )


def test_shardings_are_told() -> None:
    _run(
        """
from jax.experimental import serialize_executable
f = mapped(lambda a, b: (a + b, a), (P('x', 'y'), P()), (P('x', 'y'), P('x', 'y')))
made = f.lower(jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=S('x', 'y')),
               jax.ShapeDtypeStruct((), X.dtype)).compile()
again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(made))
for program in (made, again):
    sum_, same = program(jax.device_put(X, S('x', 'y')), jax.device_put(np.float32(1), S()))
    check(sum_, X + 1, 'x', 'y')
    check(same, X, 'x', 'y')
assert made.output_shardings[0].spec == P('x', 'y'), made.output_shardings
assert made.input_shardings[0][1].is_fully_replicated
kinds = lambda told: [str(sharding.type).split('.')[-1] for sharding in told]
for program in (made, again):
    xla = program.runtime_executable()
    assert kinds(xla.get_parameter_shardings()) == ['OTHER', 'REPLICATED']
    assert kinds(xla.get_output_shardings()) == ['OTHER', 'OTHER']
(module,) = xla.hlo_modules()
assert kinds(module.spmd_parameters_shardings) == ['OTHER', 'REPLICATED']
assert kinds(module.spmd_output_sharding.tuple_shardings) == ['OTHER', 'OTHER']
"""
    )


_CUT = {
    "made in parts": "jax.jit(lambda: jnp.arange(16.).reshape(4, 4), out_shardings=S('x', 'y'))()",
    "taken in parts": "jax.jit(lambda a: a + 1)(jax.device_put(X, S('x', 'y')))",
    "asked for in parts": "jax.jit(lambda a: a + 1, in_shardings=S('x'))(X)",
    "cut on the way": "jax.jit(lambda a: lax.with_sharding_constraint(a * 2, S('x')) + 1)(X)",
    "cut otherwise": "mapped(lambda a: a * 2, P('x'), P('x'))(jax.device_put(X, S('y')))",
    "used whole, too": "jax.jit(lambda a: shard_map(lambda b: b, mesh=mesh, in_specs=P('x'), "
    "out_specs=P('x'))(a) + a)(jax.device_put(X, S('x')))",
}


def test_what_is_cut_is_partitioned() -> None:
    _run(
        f"""
wanted = dict(zip({list(_CUT)!r}, [
    (np.arange(16.).reshape(4, 4), 'x', 'y'), (X + 1, 'x', 'y'), (X + 1, 'x'), (X * 2 + 1, 'x'),
    (X * 2, 'x'), (X * 2, 'x')]))
for name, code in {_CUT!r}.items():
    check(eval(code), *wanted[name])
"""
    )


def test_arrays_move_between_shardings() -> None:
    _run(
        """
a = jax.device_put(X, S('x', 'y'))
for axes in ((), ('y',), (None, 'x'), (('y', 'x'),), ('y', 'x')):
    a = jax.device_put(a, S(*axes))
    check(a, X, *axes)
    check(jax.jit(lambda v: v * 2, out_shardings=S('x', 'y'))(a), X * 2, 'x', 'y')
explicit = jax.make_mesh((2, 2), ('x', 'y'), axis_types=(jax.sharding.AxisType.Explicit,) * 2,
                         devices=jax.devices()[:4])
with jax.set_mesh(explicit):
    b = jax.device_put(X, NamedSharding(explicit, P('x', None)))
    made = jax.jit(lambda v: jax.sharding.reshard(v * 2, P(None, 'y')))(b)
    assert made.sharding.spec == P(None, 'y'), made.sharding
    np.testing.assert_allclose(np.asarray(made), X * 2)
from jax.experimental.shard_alike import shard_alike
def alike(v):
    w = jnp.ones((8, 4)) * 3
    return shard_alike(v, w)[1]
check(jax.jit(alike)(jax.device_put(X, S('x', 'y'))), np.full((8, 4), 3.), 'x', 'y')
"""
    )


def test_random_numbers_do_not_depend_on_devices() -> None:
    _run(
        """
draw = lambda k: jax.random.normal(k, (8, 4))
for kind in ('threefry2x32', 'rbg'):
    key = jax.random.key(3, impl=kind)
    alone = np.asarray(jax.jit(draw)(key))
    check(jax.jit(draw, out_shardings=S('x', 'y'))(key), alone, 'x', 'y')
"""
    )


def test_python_is_called_once() -> None:
    _run(
        """
from jax.experimental import io_callback
given = []
def note(v):
    given.append(v.shape)
    return np.float32(v.sum())
def f(v):
    jax.debug.callback(lambda w: given.append('debug'), v)
    return v + io_callback(note, jax.ShapeDtypeStruct((), np.float32), v)
check(jax.jit(f)(jax.device_put(X, S('x', 'y'))), X + X.sum(), 'x', 'y')
jax.effects_barrier()
assert sorted(map(str, given)) == ['(8, 4)', 'debug'], given
"""
    )


def test_tokens_are_told_apart() -> None:
    """An ordered effect adds a token in front of the arguments, which lies nowhere."""
    _run(
        """
from jax.experimental import io_callback
seen = []
def f(a, b):
    io_callback(lambda v: seen.append(v.shape), (), a, ordered=True)
    return a + b
made = mapped(f, (P(None, 'x'), P()), P(None, 'x'))
check(made(X, X[:, :2]), X + np.tile(X[:, :2], 2), None, 'x')
jax.effects_barrier()
assert set(seen) == {(8, 2)}, seen
"""
    )
