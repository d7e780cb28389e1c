"""What programs written for PyTorch rely on in the graph and in calls: saved tensors, `.data`, numbers first, modes, autocast."""

import threading

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.torch.shims.overrides import TorchFunctionMode


class Again(fl.autograd.Function):
    """The square, whose backward computes it again and differentiates that."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with fl.enable_grad():
            y = x * x
        return fl.autograd.grad(y, x, grad)


@pytest.mark.parametrize("factor", [3.0, -2.0])
def test_saved_tensors_keep_their_history(factor):
    a = fl.tensor(1.0, requires_grad=True)
    Again.apply(a * factor).backward()
    assert a.grad.item() == 2 * factor * factor


def test_saved_leaves_and_outputs_keep_their_history():
    class Seen(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            seen.append((x.is_leaf, x.requires_grad, y.requires_grad, type(y.grad_fn).__name__))
            return grad * y

    seen = []
    x = fl.tensor(0.5, requires_grad=True)
    Seen.apply(x).backward()
    assert seen[0][:3] == (True, True, True)
    assert x.grad.item() == pytest.approx(0.5 ** 0 * fl.tensor(0.5).exp().item())


def test_writes_through_data_do_not_count():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    version = y._version
    y.data[0] = 5
    y.data.mul_(1.0)
    y.data += 0
    assert y._version == version and y.tolist() == [5, 2, 2]
    z.sum().backward()
    assert x.grad.tolist() == [20, 8, 8]


def test_writes_count_once_the_data_was_used_otherwise():
    x, w = fl.ones(3, requires_grad=True), fl.ones(3) * 2
    data = w.data
    y = x * data
    data.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    other = w.data
    y = x * other.view(3)
    other[0] = 7
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_writes_of_the_tensor_itself_and_of_detached_ones_count():
    for write in (lambda y: y.detach().mul_(2), lambda y: y.data.view(3).mul_(2), lambda y: (y.data.mul_(2), y.detach().add_(1))):
        x = fl.ones(3, requires_grad=True)
        y = x * 2
        z = y * y
        write(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


def test_a_write_through_data_that_is_recorded_counts():
    w = fl.ones(3, requires_grad=True)
    x = fl.ones(3)
    data = x.data
    data.mul_(w)
    assert data.requires_grad
    y = data * data
    data.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_write_through_data_that_is_recorded_counts_in_the_graph_of_the_operand():
    for write in (lambda data, w: data.mul_(w), lambda data, w: data.__imul__(w), lambda data, w: data.mul_(other=w)):
        w = fl.tensor([2.0, 3.0], requires_grad=True)
        data = fl.ones(2).data
        before = data._version
        write(data, w)
        assert data._version == before + 1
        # The node has saved the elements of before.
        data.sum().backward()
        assert w.grad.tolist() == [1.0, 1.0]
    y = w * 1
    z = y * y
    with fl.no_grad():
        y.data.copy_(w)
        y.data[0] = w[0]
        y.data += w
    y.data.requires_grad_()
    z.sum().backward()


def test_a_write_through_data_takes_back_no_write_of_another_thread():
    x, rounds = fl.zeros(100_000), 200
    start = x._version

    def count():
        for _ in range(rounds):
            x.add_(1)

    thread = threading.Thread(target=count)
    thread.start()
    data = x.data
    while thread.is_alive():
        data.mul_(1)
    thread.join()
    assert x._version == start + rounds


def test_numbers_before_tensors():
    x, a, b = fl.ones(2), fl.tensor([1.0, 2.0]), fl.tensor([4.0, 5.0])
    m = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.clone().addcmul_(0.5, a, b).tolist() == [3, 6]
        assert x.clone().addcdiv_(2, b, a).tolist() == [9, 6]
        assert x.add(0.5, a).tolist() == [1.5, 2] and x.clone().sub_(2, a).tolist() == [-1, -3]
        assert fl.addmm(0.5, m, 2.0, m, m).tolist() == fl.addmm(m, m, m, beta=0.5, alpha=2.0).tolist()
        assert m.addmm(0.5, m, m).tolist() == fl.addmm(m, m, m, beta=0.5).tolist()
        assert fl.addmv(2, a, m, b).tolist() == fl.addmv(a, m, b, beta=2).tolist()
    for call in (lambda: x.add(a, 0.5, b), lambda: fl.addmm(m, 2.0, m, m), lambda: x.mul_(0.5, a), lambda: x.addcmul_(0.5, a)):
        with pytest.raises(TypeError):
            call()


def test_numpys_numbers_keep_their_types():
    numpy = pytest.importorskip("numpy")
    kinds = {"float64": fl.float64, "float32": fl.float32, "float16": fl.float16, "int32": fl.int32, "uint8": fl.uint8, "int64": fl.int64}
    for name, dtype in kinds.items():
        number = getattr(numpy, name)(3)
        assert fl.tensor(number).dtype is dtype and fl.as_tensor(number).dtype is dtype
        assert fl.tensor([number, number]).dtype is dtype


def test_the_nuclear_norm():
    x = fl.tensor([[3.0, 0.0], [0.0, -4.0]])
    assert fl.norm(x, "nuc").item() == pytest.approx(7.0) and x.norm("nuc", dim=(0, 1)).item() == pytest.approx(7.0)
    with pytest.raises(Exception, match="dim|two|2"):
        fl.norm(x, "nuc", dim=(0,))


def test_a_device_of_a_type():
    assert fl.device(type="cpu") == fl.device("cpu") == fl.device(device="cpu")
    for call in (lambda: fl.device(), lambda: fl.device("cpu", type="cpu"), lambda: fl.device(type=3.5)):
        with pytest.raises((TypeError, RuntimeError)):
            call()


def test_a_class_that_is_no_tensor_overrides_by_pytorchs_name():
    class Wrapped:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, len(args)

    assert fl.add(Wrapped(), 1) == ("add", 2) and fl.stack([Wrapped(), fl.ones(1)])[0] == "stack"


class Named(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_modes_see_every_call():
    plain = fl.Tensor.__add__
    x = fl.ones(2, 2)
    outer, inner = Named(), Named()
    with outer:
        y = x + 1
        y.mul(2)
        1 - y
        y[0]
        with inner:
            fl.relu(y) @ y
    assert outer.names == ["add", "mul", "__rsub__", "__getitem__", "relu", "matmul"] and inner.names == ["relu", "matmul"]
    assert fl.Tensor.__add__ is plain and (x + 1).tolist() == [[2, 2], [2, 2]]


def test_modes_belong_to_a_thread():
    mode, found = Named(), []
    with mode:
        thread = threading.Thread(target=lambda: found.append((fl.ones(1) + fl.ones(1).neg()).item()))
        thread.start()
        thread.join()
    assert mode.names == [] and found == [0.0]


def test_a_mode_that_fails_leaves_nothing_behind():
    class Fails(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        with Fails():
            fl.ones(1) + 1
    assert (fl.ones(1) + 1).item() == 2


def test_autocast_converts_by_the_lists():
    x, w = fl.randn(4, 3), fl.randn(3, 3, requires_grad=True)
    layer = nn.Linear(3, 2)
    with fl.amp.autocast("cpu"):
        assert fl.amp.is_autocast_enabled("cpu")
        y = x @ w
        assert y.dtype is fl.bfloat16 and layer(x).dtype is fl.bfloat16 and fl.mm(x, w).dtype is fl.bfloat16
        assert (y + 1).dtype is fl.bfloat16 and (x + 1).dtype is fl.float32
        assert fl.nn.functional.mse_loss(y, y.detach()).dtype is fl.float32
        assert fl.cat([y, x]).dtype is fl.float32 and (x.double() @ w.double()).dtype is fl.float64
        with fl.amp.autocast("cpu", enabled=False):
            assert (x @ w).dtype is fl.float32
        with fl.amp.autocast("cpu", fl.float16):
            assert (x @ w).dtype is fl.float16
    assert not fl.amp.is_autocast_enabled("cpu") and (x @ w).dtype is fl.float32
    y.float().sum().backward()
    assert w.grad.dtype is fl.float32
    assert fl.allclose(w.grad, x.bfloat16().float().sum(0)[:, None].expand(3, 3), atol=0.1)


def test_autocast_refuses_what_it_cannot_convert_to():
    with pytest.warns(UserWarning, match="Disabling autocast"):
        with fl.amp.autocast("cpu", fl.float32):
            assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype is fl.float32
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        fl.amp.autocast("toaster")


def test_functions_of_ones_own_under_autocast():
    class Product(fl.autograd.Function):
        @staticmethod
        @fl.amp.custom_fwd(device_type="cpu", cast_inputs=fl.float32)
        def forward(ctx, a, b):
            assert not fl.amp.is_autocast_enabled("cpu")
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @fl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad @ b.T, a.T @ grad

    a = fl.randn(2, 2, requires_grad=True)
    with fl.amp.autocast("cpu"):
        y = Product.apply(a @ a, a)
        assert y.dtype is fl.float32
    y.sum().backward()
    assert a.grad is not None and a.grad.dtype is fl.float32
