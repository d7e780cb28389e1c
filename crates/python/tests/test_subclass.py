"""Subclasses and objects that answer for calls with them, by `__flambeau_function__`, as PyTorch's protocol has it."""

import copy
import pickle

import pytest

import flambeau as fl
import flambeau.nn.functional as F
from flambeau.overrides import DisableFlambeauFunction, handle_flambeau_function, has_flambeau_function


class Plain(fl.Tensor):
    """A subclass that leaves all as it is."""


class Deeper(Plain):
    pass


class Other(fl.Tensor):
    pass


LOG = []


class Logging(fl.Tensor):
    @classmethod
    def __flambeau_function__(cls, func, types, args=(), kwargs=None):
        LOG.append((func.__name__, types))
        return super().__flambeau_function__(func, types, args, kwargs)


class Duck:
    """No tensor at all."""

    @classmethod
    def __flambeau_function__(cls, func, types, args=(), kwargs=None):
        if func is fl.add or func.__name__ in ("mul", "__mul__", "cat", "linear"):
            return "duck", func.__name__, len(args), dict(kwargs or {})
        return NotImplemented


def plain(*values):
    return fl.tensor(values).as_subclass(Plain)


def test_results_are_of_the_subclass():
    x, y = plain(1.0, 2.0), fl.tensor([3.0, 4.0])
    for made in (
        x + 1,
        1 + x,
        x + y,
        y + x,
        y - x,
        y @ x,
        2 / x,
        -x,
        abs(x),
        x == y,
        y == x,
        x**2,
        x[0],
        x[None, :1],
        x.exp(),
        y.add(x),
        fl.add(y, x),
        fl.add(y, y, alpha=x[0].item()).add(x),
        fl.cat([y, x]),
        fl.nn.functional.relu(x),
        fl.where(x > 1, y, x),
        x.double(),
        x.to(fl.float64),
        x.clone(),
        x.detach(),
        x.view(2, 1),
        x.t(),
        fl.zeros_like(x),
    ):
        assert type(made) is Plain, made
    assert (y - x).tolist() == [2, 2] and (2 / x).tolist() == [2, 1] and (y @ x).item() == 11
    found = x.max(0)
    assert type(found[0]) is Plain and type(found.values) is Plain
    assert [type(part) for part in x.split(1)] == [Plain, Plain]
    assert type(y + y) is fl.Tensor and type(fl.ones(2)) is fl.Tensor
    assert x.sum().item() == 3 and isinstance(x.tolist(), list) and len(x) == 2


def test_subclasses_take_precedence_and_unrelated_classes_are_refused():
    x, z = plain(1.0), fl.tensor([1.0]).as_subclass(Deeper)
    assert type(x + z) is Deeper and type(z + x) is Deeper and type(fl.add(x, z)) is Deeper
    with pytest.raises(TypeError, match="no implementation found"):
        x + fl.tensor([1.0]).as_subclass(Other)


def test_in_place_and_out():
    x = plain(1.0, 2.0)
    before = x
    x += 1
    assert x is before and x.tolist() == [2, 3]
    assert x.mul_(2) is x
    x[0] = 7
    assert x.tolist() == [7, 6]
    y = fl.zeros(2)
    assert fl.add(x, 1, out=y).tolist() == [8, 7] and y.tolist() == [8, 7]


def test_gradients_flow():
    w = fl.ones(2, requires_grad=True)
    x = w.as_subclass(Plain)
    assert x.requires_grad and not x.is_leaf and x.data_ptr() == w.data_ptr()
    loss = (x * 3).sum()
    assert type(loss) is Plain and loss.grad_fn is not None
    loss.backward()
    assert w.grad.tolist() == [3, 3]


def test_what_is_called_with_what():
    LOG.clear()
    x, y = fl.ones(2).as_subclass(Logging), fl.ones(2)
    x + y, fl.add(y, x), y.add(x), x.exp(), x[0], y * x
    names = [name for name, _ in LOG]
    assert names == ["add", "add", "add", "exp", "__getitem__", "mul"]
    assert all(types == (Logging,) for _, types in LOG)
    LOG.clear()
    with DisableFlambeauFunction():
        assert type(x + y) is fl.Tensor and type(fl.add(x, y)) is fl.Tensor and type(x.exp()) is fl.Tensor
    assert LOG == []


def test_overrides_are_free_to_answer():
    class Constant(fl.Tensor):
        @classmethod
        def __flambeau_function__(cls, func, types, args=(), kwargs=None):
            return 42 if func in (fl.add, fl.Tensor.add, fl.Tensor.__add__) else super().__flambeau_function__(func, types, args, kwargs)

    x = fl.ones(1).as_subclass(Constant)
    assert (x + 1, fl.add(x, 1), x.add(1)) == (42, 42, 42)
    assert type(x * 2) is Constant

    class Raises(fl.Tensor):
        @classmethod
        def __flambeau_function__(cls, func, types, args=(), kwargs=None):
            raise KeyError(func.__name__)

    with pytest.raises(KeyError, match="exp"):
        fl.ones(1).as_subclass(Raises).exp()
    assert type(fl.ones(1).as_subclass(Constant) * 2) is Constant


def test_objects_that_are_no_tensors():
    x = fl.ones(2)
    assert fl.add(x, Duck()) == ("duck", "add", 2, {})
    assert fl.add(Duck(), x, alpha=3) == ("duck", "add", 2, {"alpha": 3})
    assert fl.cat([x, Duck()]) == ("duck", "cat", 1, {})
    assert x.mul(Duck()) == ("duck", "mul", 2, {})
    assert fl.nn.functional.linear(x, Duck())[1] == "linear"
    with pytest.raises(TypeError, match="no implementation found for 'exp'"):
        fl.exp(Duck())
    with pytest.raises(TypeError, match="must be Tensor|invalid combination"):
        fl.add(x, object())


def test_functions_in_python():
    def mine(x, y):
        if has_flambeau_function((x, y)):
            return handle_flambeau_function(mine, (x, y), x, y)
        return "plain"

    assert mine(fl.ones(1), fl.ones(1)) == "plain" and has_flambeau_function([Duck()])
    with pytest.raises(TypeError, match="mine"):
        mine(Duck(), fl.ones(1))


def test_parameters_are_plain():
    p = fl.nn.Parameter(fl.ones(2))
    assert type(p + 1) is fl.Tensor and type(p.exp()) is fl.Tensor and type(fl.add(p, p)) is fl.Tensor
    assert type(fl.nn.Linear(2, 2)(fl.ones(1, 2))) is fl.Tensor
    assert type(p + plain(1.0, 2.0)) is Plain


def test_identity_copies_and_pickles():
    x = plain(1.0, 2.0)
    x.note = "kept"
    assert fl.stack([x])[0] is not x
    y = x * 1
    z = y.view(2)
    assert type(z) is Plain and type(copy.copy(x)) is Plain and type(copy.deepcopy(x)) is Plain
    assert copy.deepcopy(x).note == "kept"
    w = pickle.loads(pickle.dumps(Global.make()))
    assert type(w) is Global and w.tolist() == [1, 2]
    LOG.clear()
    g = fl.ones(2, requires_grad=True).as_subclass(Logging)
    h = g * 2
    seen = []
    h.register_hook(lambda grad: seen.append(grad.tolist()))
    h.sum().backward()
    assert seen == [[1, 1]]


class Global(fl.Tensor):
    @staticmethod
    def make():
        return fl.tensor([1.0, 2.0]).as_subclass(Global)


IMAGE, CLASSES = fl.ones(1, 1, 4, 4), fl.tensor([0, 1])
PYTHON_FUNCTIONS = {
    F.cross_entropy: (fl.ones(2, 3), CLASSES),
    F.mse_loss: (fl.ones(2), fl.zeros(2)),
    F.softmax: (fl.ones(2, 2), 1),
    F.relu: (fl.ones(2),),
    F.dropout: (fl.ones(2),),
    F.conv2d: (IMAGE, fl.ones(1, 1, 2, 2)),
    F.max_pool2d: (IMAGE, 2),
    F.interpolate: (IMAGE, 8),
    F.pad: (fl.ones(2, 2), (1, 1)),
    F.layer_norm: (fl.ones(2, 2), (2,)),
    F.embedding: (CLASSES, fl.ones(2, 2)),
    fl.einsum: ("ij->i", fl.ones(2, 2)),
    fl.nonzero: (fl.ones(2),),
    fl.is_complex: (fl.ones(2),),
    fl.unique: (fl.ones(2),),
}


@pytest.mark.parametrize("function", PYTHON_FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_written_in_python_are_overridden_as_themselves(function):
    class First(fl.Tensor):
        called = []

        @classmethod
        def __flambeau_function__(cls, func, types, args=(), kwargs=None):
            cls.called.append(func)
            return super().__flambeau_function__(func, types, args, kwargs)

    arguments = PYTHON_FUNCTIONS[function]
    expected = function(*arguments)
    marked = [value.as_subclass(First) if isinstance(value, fl.Tensor) else value for value in arguments]
    given = function(*marked)
    assert First.called == [function]
    assert function in (F.dropout, fl.is_complex) or (type(given) is First and fl.equal(given.as_subclass(fl.Tensor), expected))
    assert function(*arguments) is not None and First.called == [function]


def test_the_signature_stays():
    import inspect

    assert list(inspect.signature(F.relu).parameters) == ["input", "inplace"]


def test_an_operand_of_another_kind_answers_for_itself():
    class Other:
        def __radd__(self, tensor):
            return "other"

    x = fl.ones(1).as_subclass(Logging)
    assert x + Other() == "other"
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "text"


class Foreign:
    """As another library's tensors: its override calls the function again, as it is where it knows all operands."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

    def __radd__(self, other):
        return other.__torch_function__(foreign_add, (type(other),), (other, self))


def foreign_add(a, b):
    for operand in (a, b):
        override = getattr(operand, "__torch_function__", None)
        answer = override(foreign_add, (type(operand),), (a, b)) if isinstance(operand, fl.Tensor) else NotImplemented
        if answer is not NotImplemented:
            return answer
    raise TypeError("expected a foreign tensor")


def test_tensors_of_another_library_are_an_error():
    x, other = fl.ones(2), Foreign()
    for call in (lambda: fl.mul(x, other), lambda: x.mul(other), lambda: fl.cat([x, other])):
        with pytest.raises(TypeError, match="expected flambeau's tensors but got .*Foreign.*as_tensor"):
            call()
    for call in (lambda: x * other, lambda: x @ other, lambda: x - other):
        with pytest.raises(TypeError, match="unsupported operand"):
            call()
    # Its function calls this library's default override, which leaves it alone.
    with pytest.raises(TypeError, match="expected a foreign tensor"):
        x + other
