"""`vmap` against loops, its errors, and the transforms that are computed by it."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb
from flambeau import func, nn
from flambeau.autograd.gradcheck import GradcheckError
from flambeau.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def rand(*sizes):
    return fb.rand(*sizes, dtype=fb.float64)


def close(found, expected, rtol=1e-9, atol=1e-9):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=rtol, atol=atol)


def stacked(f, *args):
    return fb.stack([f(*row) for row in zip(*args, strict=True)])


def test_a_function_of_one_example():
    x, y = rand(4, 3), rand(4, 3)

    def f(x, y):
        assert x.shape == (3,)
        return (x * y).sum() + x.max()

    close(vmap(f)(x, y), stacked(f, x, y))
    close(fb.vmap(f, in_dims=(1, 1))(x.T, y.T), stacked(f, x, y))
    close(vmap(f, in_dims=(0, None))(x, y[0]), fb.stack([f(row, y[0]) for row in x]))
    assert vmap(lambda x: x, out_dims=-1)(x).shape == (3, 4)
    assert vmap(lambda x: x.expand(2, 3), out_dims=1)(x).shape == (2, 4, 3)


def test_trees_of_arguments_and_outputs():
    x, y = rand(4, 3), rand(3, 4)
    found = vmap(lambda a: {"sum": a["x"] + a["y"], "two": (a["x"], 2 * a["y"])}, in_dims=({"x": 0, "y": 1},))({"x": x, "y": y})
    close(found["sum"], x + y.T)
    close(found["two"][1], 2 * y.T)
    a, b = vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(x)
    assert a.shape == (3, 4) and b.shape == (4,)
    value, extra = vmap(lambda x: (x, 3), out_dims=(0, None))(x)
    assert extra == 3


def test_levels_nest():
    x, y = rand(3, 2), rand(5, 2)
    found = vmap(lambda a: vmap(lambda b: fb.dot(a, b))(y))(x)
    close(found, x @ y.T)
    close(vmap(vmap(lambda a: a.sum()))(rand(2, 3, 4) * 0 + 1), fb.full((2, 3), 4.0, dtype=fb.float64))


def test_chunks():
    x = rand(7, 3)
    for chunk in (1, 2, 3, 7, 100):
        close(vmap(lambda x: x.softmax(0), chunk_size=chunk)(x), x.softmax(1))
        close(vmap(lambda x: x * 2, out_dims=1, chunk_size=chunk)(x), x.T * 2)


def test_views_and_writes():
    x = rand(4, 2, 3)

    def f(x):
        y = x.clone()
        y[0] = 1
        y.view(-1)[2:4].mul_(10)
        return y.t().contiguous().view(-1)

    close(vmap(f)(x), stacked(f, x))

    def zeros(x):
        y = x.new_zeros(2)
        y += x.sum(1)
        return y

    close(vmap(zeros)(x), x.sum(2))
    base = rand(4, 3)
    kept = base.clone()
    vmap(lambda x: x.add_(1))(base)
    close(base, kept + 1)


def test_indices():
    x, i = rand(3, 4, 5), fb.tensor([[0, 2], [1, 3], [3, 3]])
    v = rand(3, 2)
    for f in (lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[i, i], lambda x, i: x[i][:, 0]):
        close(vmap(f)(x, i), stacked(f, x, i))
        close(vmap(f, in_dims=(0, None))(x, i[0]), fb.stack([f(row, i[0]) for row in x]))
        close(vmap(f, in_dims=(None, 0))(x[0], i), fb.stack([f(x[0], row) for row in i]))

    close(vmap(lambda x, i: x[i[0]])(x, i), stacked(lambda x, i: x[i[0]], x, i))
    close(vmap(lambda x: fb.masked_select(x, fb.eye(4, 5) > 0))(x), fb.stack([fb.masked_select(row, fb.eye(4, 5) > 0) for row in x]))

    def put(x, i, v):
        y = x.clone()
        y[i, 1] = v
        return y

    close(vmap(put)(x, i, v), stacked(put, x, i, v))

    def masked(x):
        y = x.clone()
        y[y > 0.5] = 0
        return y

    close(vmap(masked)(x), stacked(masked, x))


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(groups):
    x, w, b = rand(3, 2, 4, 6, 6), rand(3, 4, 4 // groups, 3, 3), rand(3, 4)

    def f(x, w, b):
        return nn.functional.conv2d(x, w, b, padding=1, groups=groups)

    for dims in ((0, 0, 0), (0, None, None), (None, 0, None), (None, None, 0), (0, 0, None), (0, None, 0)):
        given = [t if d == 0 else t[0] for t, d in zip((x, w, b), dims, strict=True)]
        rows = [f(*(t[i] if d == 0 else t for t, d in zip(given, dims, strict=True))) for i in range(3)]
        close(vmap(f, in_dims=dims)(*given), fb.stack(rows))


def per_sample(model, loss):
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def one(parameters, x, y):
        return loss(functional_call(model, parameters, (x.unsqueeze(0),)), y.unsqueeze(0))

    return parameters, one


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.GroupNorm(2, 4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 8), nn.LayerNorm(8), nn.Linear(8, 3)
    ).double()


def test_gradients_of_each_sample():
    model = small_cnn()
    x, y = rand(5, 1, 8, 8), fb.tensor([0, 2, 1, 1, 0])
    parameters, one = per_sample(model, nn.functional.cross_entropy)
    found = vmap(grad(one), in_dims=(None, 0, 0))(parameters, x, y)
    for at in range(5):
        expected = grad(one)(parameters, x[at], y[at])
        for name in parameters:
            close(found[name][at], expected[name])


def test_gradients_through_a_batch():
    x, w = rand(4, 3), rand(3)

    def total(w):
        return vmap(lambda x: (x * w).sin().sum())(x).sum()

    close(grad(total)(w), (x * (x * w).cos()).sum(0))
    leaf = w.clone().requires_grad_()
    total(leaf).backward()
    close(leaf.grad, (x * (x * w).cos()).sum(0))


def test_transforms_inside_of_vmap():
    x, t = rand(4, 3), rand(4, 3)

    def f(x):
        return x.sin() * x.sum()

    def g(x):
        return f(x).sum()

    close(vmap(grad(g))(x), stacked(grad(g), x))
    close(vmap(grad(lambda x: grad(g)(x).square().sum()))(x), stacked(grad(lambda x: grad(g)(x).square().sum()), x))
    close(vmap(lambda x, t: jvp(f, (x,), (t,))[1])(x, t), stacked(lambda x, t: jvp(f, (x,), (t,))[1], x, t))
    close(vmap(lambda x, t: jvp(f, (x[0],), (t,))[1], in_dims=(None, 0))(x, t), fb.stack([jvp(f, (x[0],), (row,))[1] for row in t]))
    close(vmap(lambda x, t: vjp(f, x)[1](t)[0])(x, t), stacked(lambda x, t: vjp(f, x)[1](t)[0], x, t))
    close(vmap(jacrev(f))(x), stacked(jacrev(f), x))
    close(vmap(jacfwd(f))(x), stacked(jacfwd(f), x))
    close(vmap(hessian(g))(x), stacked(hessian(g), x))
    # A gradient by what all examples share is one for each example.
    close(vmap(lambda x: grad(lambda w: (w * x).sin().sum())(t[0]))(x), fb.stack([row * (row * t[0]).cos() for row in x]))


def test_jacobians():
    x = rand(2, 3)

    def f(x):
        return (x @ x.T).exp()[0], {"b": x.sum()}

    by_rows, by_columns = jacrev(f)(x), jacfwd(f)(x)
    for chunk in (None, 1, 2):
        other = jacrev(f, chunk_size=chunk)(x)
        close(other[0], by_rows[0])
        close(other[0], by_columns[0])
    assert by_rows[0].shape == (2, 2, 3) and by_rows[1]["b"].shape == (2, 3)
    close(hessian(lambda x: (x**3).sum())(x[0]), fb.diag(6 * x[0]))
    both = jacrev(lambda a, b: (a * b).sum(), argnums=(0, 1))(x[0], x[1])
    close(both[0], x[1])
    assert jacrev(lambda x: x[:0])(x).shape == (0, 3, 2, 3)
    jacobian, aux = jacfwd(lambda x: (x * 2, x.sum()), has_aux=True)(x[0])
    close(aux, x[0].sum())
    close(jacobian, 2 * fb.eye(3, dtype=fb.float64))


def rowed(f, x, out):
    """The Jacobian of a function by rows that are computed one by one, of gradients of a graph of its own."""
    rows = []
    for at in range(out):
        leaf = x.clone().requires_grad_()
        rows.append(fb.autograd.grad(f(leaf).reshape(-1)[at], leaf)[0])
    return fb.stack(rows)


def test_a_jacobian_is_one_pass():
    x, passes, runs = rand(3), [], []

    def f(x):
        runs.append(x.shape)
        y = x.sin() * x.sum()
        if y.requires_grad:
            y.register_hook(lambda grad: passes.append(grad.shape))
        return (y * x if x.sum() > 0 else y).cumsum(0)

    expected = rowed(f, x, 3)
    for jacobian, count in ((jacrev(f), 1), (jacrev(f, chunk_size=2), 2), (jacrev(f, chunk_size=1), 3), (jacfwd(f), 0)):
        passes.clear(), runs.clear()
        close(jacobian(x), expected)
        assert (len(passes), len(runs)) == (count, 1)
    with pytest.raises(ValueError, match="`chunk_size` should be greater than 0"):
        jacrev(f, chunk_size=0)
    runs.clear()
    second = hessian(lambda x: f(x).sum())(x)
    assert len(runs) == 1
    close(second, rowed(grad(lambda x: f(x).sum()), x, 3))


def test_a_jacobian_of_what_writes_in_place():
    x = rand(3)

    def f(x):
        y = fb.zeros(2, 3, dtype=fb.float64)
        y[0, 1:] = x[:2] * x[2]
        y[1].copy_(x.flip(0))
        y[:, 0] += x[0].exp()
        z = x.clone()
        z.mul_(x).t_()
        return fb.cat([y.view(-1), z, y.t()[1]])

    close(jacfwd(f)(x), rowed(f, x, 11))
    close(jacrev(f)(x), rowed(f, x, 11))
    total = lambda x: (f(x) ** 3).sum()  # noqa: E731
    close(hessian(total)(x), jacrev(jacrev(total))(x))


def test_jacobians_of_compositions():
    x = rand(3, 3) + 3 * fb.eye(3, dtype=fb.float64)

    def f(x):
        return fb.linalg.inv(x) @ fb.linalg.solve(x, x.tril()) + fb.linalg.cholesky(x @ x.T)

    expected = rowed(f, x, 9).reshape(3, 3, 3, 3)
    close(jacrev(f)(x), expected)
    close(jacfwd(f)(x), expected)
    model, y = small_cnn(), rand(2, 1, 8, 8)
    close(jacrev(model)(y), jacrev(model, chunk_size=1)(y))
    close(jacrev(model)(y), jacfwd(model)(y))
    # A constant output, an output that is an input, and several arguments.
    both = jacrev(lambda a, b: (fb.ones(2, dtype=fb.float64), a, (a * b).sum()), argnums=(0, 1))(x[0], x[1])
    columns = jacfwd(lambda a, b: (fb.ones(2, dtype=fb.float64), a, (a * b).sum()), argnums=(0, 1))(x[0], x[1])
    for row, column in zip(both, columns, strict=True):
        for one, other in zip(row, column, strict=True):
            close(one, other)
            other.add_(1)
    close(both[2][0], x[1])


def test_what_a_backward_pass_draws_again_is_the_same_for_all_rows():
    from flambeau.utils.checkpoint import checkpoint

    x = rand(6)

    def f(x):
        return checkpoint(lambda x: nn.functional.dropout(x, 0.5) * x, x, use_reentrant=False)

    fb.manual_seed(3)
    by_rows = jacrev(f, chunk_size=1)(x)
    fb.manual_seed(3)
    close(jacrev(f)(x), by_rows)


def test_a_batch_of_gradients():
    x, w = rand(3).requires_grad_(), rand(2).requires_grad_()
    y, z = x.sin() * x.sum(), w * 2
    batch = rand(4, 3)
    (found,) = fb.autograd.grad(y, x, batch, retain_graph=True, is_grads_batched=True)
    close(found, fb.stack([fb.autograd.grad(y, x, row, retain_graph=True)[0] for row in batch]))
    first, second = fb.autograd.grad((y, z), (x, w), (batch, rand(4, 2)), retain_graph=True, is_grads_batched=True)
    assert first.shape == (4, 3) and second.shape == (4, 2)
    none = fb.autograd.grad(y, (x, w), batch, retain_graph=True, allow_unused=True, is_grads_batched=True)
    assert none[1] is None
    zeros = fb.autograd.grad(y, (x, w), batch, retain_graph=True, is_grads_batched=True, materialize_grads=True)
    assert zeros[1].tolist() == [[0.0, 0.0]] * 4
    (recorded,) = fb.autograd.grad(y, x, batch, create_graph=True, is_grads_batched=True)
    (twice,) = fb.autograd.grad(recorded.sum(), x)
    close(twice, fb.autograd.grad(fb.autograd.grad(x.sin() * x.sum(), x, batch.sum(0), create_graph=True)[0].sum(), x)[0])
    with pytest.raises(RuntimeError, match=r"If `is_grads_batched=True`, we interpret the first dimension"):
        fb.autograd.grad(y, x, batch[0], is_grads_batched=True)
    with pytest.raises(ValueError, match="one batch size"):
        fb.autograd.grad((y, z), (x, w), (batch, rand(3, 2)), is_grads_batched=True)


def test_gradcheck_of_batches():
    x = rand(2, 3).requires_grad_()
    assert fb.autograd.gradcheck(lambda x: (x.sin() @ x.T, x.cumsum(1)), x, check_batched_grad=True)
    assert fb.autograd.gradgradcheck(lambda x: (x**3).sum(0), x, check_batched_grad=True)

    class Cube(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return fb.from_numpy(3 * ctx.saved_tensors[0].detach().numpy() ** 2 * grad.detach().numpy())

    with pytest.raises(GradcheckError, match="a batch of gradients of output 0 is an error"):
        fb.autograd.gradcheck(Cube.apply, x, check_batched_grad=True)
    close(jacrev(Cube.apply, chunk_size=1)(x.detach()), fb.diag((3 * x.detach() ** 2).view(-1)).view(2, 3, 2, 3))


def test_randomness():
    x = fb.zeros(3, 4)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(lambda x: x + fb.rand(4))(x)
    fb.manual_seed(1)
    looped = fb.stack([row + fb.rand(4) for row in x])
    fb.manual_seed(1)
    close(vmap(lambda x: x + fb.rand(4), randomness="different")(x), looped)
    fb.manual_seed(1)
    same = vmap(lambda x: x + fb.rand(4), randomness="same")(x)
    close(same, looped[:1].expand(3, 4))
    dropped = vmap(lambda x: nn.functional.dropout(x + 1), randomness="same")(x)
    close(dropped[0], dropped[2])
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda x: x + fb.zeros(4).uniform_(), randomness="different")(x)


def test_errors():
    x, shared = rand(3, 4), fb.zeros(4, dtype=fb.float64)
    for f, message in (
        (lambda x: x.sum().item(), r"calling .item\(\) on a Tensor"),
        (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow"),
        (lambda x: shared.add_(x), "is not possible because there exists a Tensor `other`"),
        (lambda x: x.nonzero(), "dynamic shape"),
        (lambda x: fb.where(x > 0)[0], "dynamic shape. Attempted to vmap over aten::where"),
        (lambda x: x[x > 0.5], "dynamic shape"),
        (lambda x: x.unique(), "dynamic shape"),
        (lambda x: x.tolist(), r"calling .item\(\)"),
        (lambda x: fb.add(x, x, out=shared), "out="),
        (lambda x: x.sum().requires_grad_().backward(), "backward"),
    ):
        with pytest.raises(RuntimeError, match=message):
            vmap(f)(x)
    with pytest.raises(TypeError, match="elements of its own"):
        vmap(lambda x: x.numpy())(x)
    for call, message in (
        (lambda: vmap(fb.sin)(), "got no inputs"),
        (lambda: vmap(fb.sin, in_dims=None)(x), "expected `in_dims` to be int or a"),
        (lambda: vmap(fb.sin, in_dims=(0, 0))(x), "in_dims is not compatible with the structure"),
        (lambda: vmap(fb.sin, in_dims=2)(x), "dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda: vmap(lambda x, y: x)(x, 2), "We cannot vmap over non-Tensor arguments"),
        (lambda: vmap(fb.add)(x, rand(2, 4)), r"got sizes \[3, 2\] for the mapped dimension"),
        (lambda: vmap(lambda x: 1)(x), "must only return Tensors, got type <class 'int'>"),
        (lambda: vmap(lambda x: x, out_dims=None)(x), "can not return a BatchedTensor when out_dim is None"),
        (lambda: vmap(lambda x: x, out_dims=(0, 0))(x), "out_dims is not compatible with the structure of `outputs`"),
        (lambda: vmap(lambda x: x, chunk_size=0)(x), "chunk_size should be None or greater than 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        vmap(fb.sin, randomness="other")
    escaped = []
    vmap(lambda x: escaped.append(x) or x)(x)
    with pytest.raises(RuntimeError):
        escaped[0] + 1


def test_an_error_closes_the_level():
    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: 1 / 0)(rand(2))
    assert func.vmap(lambda x: x * 2)(rand(2)).shape == (2,)
    assert rand(2).sum().item() > 0


def test_custom_functions():
    class Cube(fb.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    x = rand(3, 2)
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Cube.apply)(x)

    class ByExample(Cube):
        generate_vmap_rule = True

    class WithRule(Cube):
        @staticmethod
        def vmap(info, in_dims, x):
            assert info.batch_size == 3 and in_dims == (0,)
            return WithRule.apply(x), 0

    for function in (ByExample, WithRule):
        close(vmap(function.apply)(x), x**3)
        close(vmap(grad(lambda x: function.apply(x).sum()))(x), 3 * x**2)


def test_operators_with_a_rule_under_two_levels():
    @fb.library.custom_op("test_vmap::cube", mutates_args=())
    def cube(x: fb.Tensor) -> fb.Tensor:
        return fb.from_numpy(x.numpy() ** 3)

    seen = []

    @cube.register_vmap
    def _(info, in_dims, x):
        seen.append((info.batch_size, in_dims))
        return cube(x), in_dims[0]

    cube.register_autograd(
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    x, y = rand(2, 4), rand(3, 4)
    nested = vmap(lambda a: vmap(lambda b: cube(a * b).sum())(y))
    close(nested(x), (x[:, None] * y).pow(3).sum(-1))
    assert [size for size, _ in seen] == [3, 2]
    seen.clear()
    close(vmap(lambda a: vmap(lambda b: cube(a) + b)(y))(x), x.pow(3)[:, None] + y)
    assert [size for size, _ in seen] == [2]
    expected = (3 * x**2)[:, :, None] * fb.eye(4, dtype=fb.float64)
    for jacobian in (jacrev(cube), jacfwd(cube)):
        close(vmap(jacobian)(x), expected)
    close(vmap(hessian(lambda x: cube(x).sum()))(x), (6 * x)[:, :, None] * fb.eye(4, dtype=fb.float64))
    assert "test_vmap::cube" not in fb._flambeau._vmap_loops()


def test_what_a_batched_tensor_holds():
    x, y = rand(2, 3), rand(4, 3)
    shapes = []

    def f(a, b):
        both = a + b
        shapes.extend([func.debug_unwrap(both).shape, func.debug_unwrap(both, recurse=False).shape, func.debug_unwrap(y).shape])
        return both

    vmap(vmap(f, in_dims=(None, 0)), in_dims=(0, None))(x, y)
    assert shapes == [(2, 4, 3), (4, 3), (4, 3)]


def test_printing():
    printed = []
    vmap(lambda x: printed.append(repr(x)) or x)(fb.zeros(2, 1))
    assert printed[0].startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[0.],")


def test_what_loops_is_counted_and_warns():
    before = fb._flambeau._vmap_loops().get("histc", 0)
    with pytest.warns(UserWarning, match="performance drop"):
        found = vmap(lambda x: fb.histc(x, 4, 0, 1))(rand(3, 5))
    assert found.shape == (3, 4)
    assert fb._flambeau._vmap_loops()["histc"] == before + 1
