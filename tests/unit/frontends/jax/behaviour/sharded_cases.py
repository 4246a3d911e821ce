"""JAX programs, each with how its arguments are cut; compares what XLA and xladev choose for them.

Run in a process that has both platforms, with eight devices each.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

U = P.UNCONSTRAINED
meshes = {}
for name in ("xladev_cpu", "cpu"):
    devs = jax.devices(name)
    meshes[name] = Mesh(np.array(devs[:8]).reshape(4, 2), ("x", "y"))
mesh = None


def S(*axes):
    return NamedSharding(mesh, P(*axes))


rng = np.random.RandomState(0)
A = rng.randn(8, 16).astype("f")
B = rng.randn(16, 8).astype("f")
C = rng.randn(8, 8).astype("f")
V = rng.randn(8).astype("f")
T3 = rng.randn(4, 8, 16).astype("f")
ROWS = rng.randint(0, 8, (8,)).astype("i4")
con = lax.with_sharding_constraint


def loop(a):
    return lax.fori_loop(0, 3, lambda i, c: c * 2 + 1, a)


def scan(a, w):
    def f(c, x):
        return jnp.tanh(c @ w + x), c.sum(-1)

    return lax.scan(f, jnp.zeros((8, 8), "f"), jnp.stack([a] * 3))


cases = {
    "add": (lambda a: a + 1, [(A, ("x", "y"))]),
    "add2": (lambda a, b: a + b, [(A, ("x",)), (A, (None, "y"))]),
    "one axis twice": (lambda a, b: a + b, [(A, ("x",)), (A, ("y",))]),
    "dot": (lambda a, b: a @ b, [(A, ("x",)), (B, (None, "y"))]),
    "dot over x": (lambda a, b: a @ b, [(A, (None, "x")), (B, ("x",))]),
    "dot over y": (lambda a, b: a @ b, [(A, ("x", "y")), (B, ("y",))]),
    "dot of a whole": (lambda a, b: a @ b, [(A, ("x", "y")), (B, None)]),
    "dot of x and x": (lambda a, b: a @ b, [(A, ("x",)), (B, (None, "x"))]),
    "sum": (lambda a: a.sum(), [(A, ("x", "y"))]),
    "sum0": (lambda a: a.sum(0), [(A, ("x", "y"))]),
    "softmax": (lambda a: jax.nn.softmax(a), [(A, ("x", "y"))]),
    "argmax": (lambda a: a.argmax(1), [(A, ("x", "y"))]),
    "T": (lambda a: a.T, [(A, ("x", "y"))]),
    "reshape": (lambda a: a.reshape(2, 4, 16), [(A, ("x", "y"))]),
    "reshape2": (lambda a: a.reshape(8 * 16), [(A, ("x", "y"))]),
    "reshape3": (lambda a: a.reshape(4, 8, 4), [(A, ("x", "y"))]),
    "reshape4": (lambda a: a.reshape(32, 16), [(T3, ("x", "y"))]),
    "con": (lambda a: con(a * 2, S("y", "x")) + 1, [(A, ("x",))]),
    "conopen": (lambda a: con(a * 2, S(U, "x")) + 1, [(A, ("y",))]),
    "loop": (loop, [(A, ("x", "y"))]),
    "scan": (scan, [(C, ("x",)), (C, (None, "y"))]),
    "gather": (lambda a, i: a[i], [(A, ("x", "y")), (ROWS, None)]),
    "gather2": (lambda a, i: a[i], [(A, (None, "y")), (ROWS, ("x",))]),
    "take": (lambda a: a[2:6], [(A, ("x", "y"))]),
    "dslice": (
        lambda a, i: lax.dynamic_slice(a, (i[0], 0), (4, 16)),
        [(A, ("x", "y")), (ROWS, None)],
    ),
    "dus": (
        lambda a, i: lax.dynamic_update_slice(a, jnp.ones((4, 16), "f"), (i[0], 0)),
        [(A, ("x", "y")), (ROWS, None)],
    ),
    "concat": (lambda a, b: jnp.concatenate([a, b], 0), [(A, ("x",)), (A, ("x",))]),
    "concat1": (lambda a, b: jnp.concatenate([a, b], 1), [(A, ("x", "y")), (A, ("x", "y"))]),
    "pad": (lambda a: jnp.pad(a, ((0, 0), (1, 1))), [(A, ("x", "y"))]),
    "rev": (lambda a: a[::-1], [(A, ("x", "y"))]),
    "sort": (lambda a: jnp.sort(a, 1), [(A, ("x", "y"))]),
    "cumsum": (lambda a: jnp.cumsum(a, 1), [(A, ("x", "y"))]),
    "topk": (lambda a: lax.top_k(a, 3), [(A, ("x", "y"))]),
    "where": (lambda a: jnp.where(a > 0, a, 0.0), [(A, ("x", "y"))]),
    "bcast": (lambda v: jnp.broadcast_to(v[None], (4, 8)), [(V, ("x",))]),
    "bcast2": (lambda v, a: v[:, None] + a, [(V, ("x",)), (A, None)]),
    "outer": (lambda v, w: jnp.outer(v, w), [(V, ("x",)), (V, ("y",))]),
    "einsum": (lambda t, b: jnp.einsum("bij,jk->bik", t, b), [(T3, ("x",)), (B, (None, "y"))]),
    "grad": (
        lambda a, b: jax.grad(lambda w: jnp.sum(jnp.tanh(a @ w) ** 2))(b),
        [(A, ("x",)), (B, (None, "y"))],
    ),
    "grad2": (
        lambda a, b: jax.value_and_grad(lambda w: jnp.sum(jnp.tanh(a @ w) ** 2))(b),
        [(A, ("x",)), (B, ("y",))],
    ),
    "cond": (
        lambda a, v: lax.cond(v[0] > 0, lambda q: q + 1, lambda q: q * 2, a),
        [(A, ("x", "y")), (V, None)],
    ),
    "iota": (lambda a: a + jnp.arange(16.0), [(A, ("x", "y"))]),
    "scatter": (lambda a, i: a.at[i].add(1.0), [(A, ("x", "y")), (ROWS, None)]),
    "onehot": (lambda i: jax.nn.one_hot(i, 8), [(ROWS, ("x",))]),
    "split": (lambda a: jnp.split(a, 2, 1), [(A, ("x", "y"))]),
    "conv": (
        lambda a: lax.conv_general_dilated(a[:, None, :], jnp.ones((2, 1, 3), "f"), (1,), "SAME"),
        [(A, ("x", "y"))],
    ),
    "random": (lambda a: a + jax.random.normal(jax.random.key(0), (8, 16)), [(A, ("x", "y"))]),
    "cholesky": (
        lambda t: jnp.linalg.cholesky(jnp.einsum("bij,bkj->bik", t, t) + jnp.eye(8)),
        [(T3, ("x",))],
    ),
    "openin": (lambda a: con(a, S("x", "y")) + 1, [(A, "open")]),
    "openin2": (lambda a, b: a @ b, [(A, "open"), (B, (None, "y"))]),
    "unused": (lambda a, b: a + 1, [(A, ("x", "y")), (B, ("x",))]),
    "tril": (lambda a: jnp.tril(a @ a.T), [(A, ("x",))]),
    "ln": (
        lambda a: (a - a.mean(-1, keepdims=True)) / jnp.sqrt(a.var(-1, keepdims=True) + 1e-5),
        [(A, ("x", "y"))],
    ),
    "alias": (lambda a: (a, a + 1, a), [(A, ("x", "y"))]),
}


def told(platform, f, args):
    global mesh
    mesh = meshes[platform]
    shapes = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=None if s == "open" else S(*(s or ())))
        for a, s in args
    ]
    made = jax.jit(f).lower(*shapes).compile()
    inputs = made.input_shardings[0]
    out = jax.tree.leaves(
        made(*[jax.device_put(a, s) for (a, _), s in zip(args, inputs, strict=True)])
    )
    return (
        [str(getattr(s, "spec", s)) for s in inputs],
        [str(x.sharding.spec) for x in out],
        [np.asarray(x) for x in out],
    )


differ = {}
for name, (f, args) in cases.items():
    (ins, outs, values), (our_ins, our_outs, ours) = (
        told(platform, f, args) for platform in ("cpu", "xladev_cpu")
    )
    if (ins, outs) != (our_ins, our_outs):
        differ[name] = (ins, outs), (our_ins, our_outs)
    for value, own in zip(values, ours, strict=True):
        np.testing.assert_allclose(own, value, rtol=1e-4, atol=1e-5, err_msg=name)
assert not differ, differ
print(len(cases))
