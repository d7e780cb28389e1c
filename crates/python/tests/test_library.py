"""`flambeau.ops` and `flambeau.library`: operators by name, and operators from Python."""

import re
import sys
import threading
from typing import List, Optional, Sequence, Tuple, Union

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.library import Library, OpCheckError, custom_op, infer_schema, opcheck
from flambeau.profiler import profile
from wrapper_classes import LoggingMode, TwoTensor

aten = fl.ops.aten
NAMES = iter(range(10**6))


def fresh(base="op"):
    """A name that no test has used."""
    return f"testlib::{base}{next(NAMES)}"


def cube(name=None, **options):
    """x^3 through NumPy, with its derivative."""
    name = name or fresh("cube")

    @custom_op(name, mutates_args=(), **options)
    def numpy_cube(x: fl.Tensor) -> fl.Tensor:
        return fl.from_numpy(np.asarray(x.numpy() ** 3))

    @numpy_cube.register_fake
    def _(x):
        return fl.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    numpy_cube.register_autograd(lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2, setup_context=setup)
    return numpy_cube


# Operators by name.


def test_every_operator_is_found_by_its_name():
    x = fl.tensor([1.0, 2.0])
    assert aten.add.Tensor(x, x, alpha=2).tolist() == [3.0, 6.0]
    assert aten.add(x, 1).tolist() == [2.0, 3.0] and aten.relu(-x).tolist() == [0.0, 0.0]
    assert aten.sum.dim_IntList(fl.ones(2, 3), [1], keepdim=True).shape == (2, 1)
    assert aten.sum.dim_IntList(fl.ones(2, 3), 1).shape == (2,)
    assert aten.topk.default(fl.tensor([3.0, 1.0, 2.0]), 2)[0].tolist() == [3.0, 2.0]
    assert [t.tolist() for t in aten.split.Tensor(fl.arange(4), 2)] == [[0, 1], [2, 3]]
    y = fl.ones(2)
    assert aten.add_.Tensor(y, x) is y and aten.add.out(x, x, out=y) is y and y.tolist() == [2.0, 4.0]
    assert aten.zeros.default([2], dtype=fl.int64).dtype is fl.int64
    assert fl.ops.flambeau.add.Tensor is aten.add.Tensor and "Tensor" in aten.add.overloads()
    with pytest.raises(AttributeError, match="has no overload name 'Nothing'"):
        aten.add.Nothing
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute"):
        aten.no_such_operator


def test_operators_that_are_defined_elsewhere_are_found():
    # As a library in another language defines them, of which Python is not told.
    define = fl._flambeau._define_operator
    with pytest.raises(AttributeError):
        fl.ops.testouter.one
    define("testouter::one(Tensor x) -> Tensor")
    packet = fl.ops.testouter.one
    default = packet.default
    define("testouter::one.twice(Tensor x, int times) -> Tensor")
    assert packet.twice._schema.overload_name == "twice" and packet.default is default
    define("testouter::two(Tensor x) -> Tensor")
    assert dir(fl.ops.testouter) == ["one", "two"]
    define("testouter::three(Tensor x) -> Tensor")
    fl.library.impl("testouter::three", "cpu", lambda x: x * 3)
    assert fl.ops.testouter.three(fl.ones(1)).tolist() == [3.0]
    with pytest.raises(AttributeError, match="'_OpNamespace' 'testouter' object has no attribute 'four'"):
        fl.ops.testouter.four


def test_all_schemas_of_the_library_parse():
    count = 0
    for name in fl._flambeau._operator_names():
        if "::" not in name:
            operator = fl._flambeau._find_operator(name)
            assert operator.schema.startswith("aten::") and len(operator.arguments) >= 0
            count += 1
    assert count > 1000


def test_schemas_as_objects():
    schema = aten.add.Tensor._schema
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert [a.name for a in schema.arguments] == ["self", "other", "alpha"] and schema.arguments[2].kwarg_only
    assert schema.arguments[2].default_value == 1 and not schema.arguments[0].has_default_value()
    assert not schema.is_mutable and aten.add_.Tensor._schema.is_mutable
    assert aten.add_.Tensor._schema.arguments[0].alias_info.is_write and aten.t.default.is_view


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: aten.relu.default(), "is missing value for argument 'self'"),
        (lambda: aten.relu.default("x"), "Expected a value of type 'Tensor' for argument 'self' but instead found type 'str'"),
        (lambda: aten.relu.default(fl.ones(1), 2), r"expected at most 1 argument\(s\) but received 2"),
        (lambda: aten.relu.default(fl.ones(1), nothing=2), "unknown keyword argument 'nothing'"),
        (lambda: aten.relu.default(fl.ones(1), self=fl.ones(1)), "two values for argument 'self'"),
        (lambda: aten.sum.dim_IntList(fl.ones(2), [1.5]), "Expected a value of type 'int"),
        (lambda: aten.cat.default([fl.ones(1), 3.0, None]), "Expected a value of type 'Tensor"),
    ],
)
def test_wrong_arguments_are_errors_that_name_the_schema(call, message):
    with pytest.raises(RuntimeError, match=message) as raised:
        call()
    assert "Declaration: " in str(raised.value)


# Definitions.


@pytest.mark.parametrize(
    "schema, message",
    [
        ("f(Tensr x) -> Tensor", "unknown type `Tensr`"),
        ("f(Tensor x", "`, ` or `\\)` after an argument"),
        ("f(Tensor x, Tensor x) -> Tensor", "argument `x` is given twice"),
        ("f(Tensor x) -> Tensor(b)", "no argument carries the alias set `b`"),
        ("f(Tensor x, int[65] s=0) -> Tensor", "expected the size of a list, from 1 to 64, but got `65`"),
        ("f(int x=1.5) -> Tensor", "expected an integer as the default"),
        ("f(Dimname x) -> Tensor", "expected types that operators take"),
    ],
)
def test_a_wrong_schema_is_an_error_that_says_where(schema, message):
    library = Library("testlib", "FRAGMENT")
    with pytest.raises(RuntimeError, match=message) as raised:
        library.define(schema)
    assert "testlib::f" in str(raised.value)


def test_define_and_impl():
    with fl.library._scoped_library("testscope", "DEF") as library:
        assert library.define("scaled(Tensor x, float by=2.0, *, int[2] add=1, str? mode=None) -> Tensor") == "scaled"
        seen = []

        def scaled(x, by=2.0, *, add=(1, 1), mode=None):
            seen.append((by, list(add), mode))
            return x * by + add[0] + add[1]

        library.impl("scaled", scaled, "CPU")
        op = fl.ops.testscope.scaled
        assert op(fl.ones(2)).tolist() == [4.0, 4.0]
        assert op.default(fl.ones(2), 3, add=[1, 5], mode="m").tolist() == [9.0, 9.0]
        assert seen == [(2.0, [1, 1], None), (3.0, [1, 5], "m")]
        with pytest.raises(NotImplementedError, match="testscope::scaled.*no kernel for Meta"):
            op(fl.ones(2, device="meta"))
        with pytest.raises(RuntimeError, match="Only a single library of kind DEF") as raised:
            Library("testscope", "DEF")
        assert str(raised.value).count(__file__) == 2
    with pytest.raises(AttributeError):
        fl.ops.testscope.scaled
    with fl.library._scoped_library("testscope", "DEF") as library:
        library.define("scaled(Tensor x) -> Tensor")
        library.impl("scaled", lambda x: x * 5, "CPU")
        assert fl.ops.testscope.scaled(fl.ones(1)).tolist() == [5.0]


def test_a_second_registration_names_both_locations():
    name = fresh()
    fl.library.define(name, "(Tensor x) -> Tensor")
    fl.library.impl(name, "cpu", lambda x: x + 1)
    with pytest.raises(RuntimeError, match="a kernel for CPU is registered already") as raised:
        fl.library.impl(name, "cpu", lambda x: x + 2)
    assert str(raised.value).count(__file__) == 2
    with pytest.raises(RuntimeError, match="its definition is registered already") as raised:
        fl.library.define(name, "(Tensor x) -> Tensor")
    assert str(raised.value).count(__file__) == 2
    with pytest.raises(RuntimeError):
        Library("aten", "FRAGMENT").define("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "")


@pytest.mark.parametrize("one, other", [("AutogradCPU", "Autograd"), ("Batched", "FuncTorchBatched"), ("Sparse", "SparseCPU")])
def test_two_spellings_of_a_key_are_one(one, other):
    with fl.library._scoped_library("testspelling", "FRAGMENT") as library:
        for first, second in ((one, other), (other, one)):
            name = fresh().rpartition("::")[2]
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x, first)
            with pytest.raises(RuntimeError, match=f"testspelling::{name}: a kernel for .* is registered already") as raised:
                library.impl(name, lambda x: x, second)
            assert str(raised.value).count(__file__) == 2
            library.impl(name, lambda x: x, second, allow_override=True)


def test_a_key_that_there_is_not_is_an_error_each_time():
    name = fresh()
    fl.library.define(name, "(Tensor x) -> Tensor")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="could not parse dispatch key: Elsewhere"):
            fl.library.impl(name, "Elsewhere", lambda x: x)


def test_several_results_lists_and_written_arguments():
    library = Library("testlib", "FRAGMENT")
    library.define("parts(Tensor x, Tensor?[] rest) -> (Tensor, Tensor[], int)")
    library.impl("parts", lambda x, rest: (x + 1, [t * 2 for t in rest if t is not None], len(rest)), "CPU")
    first, second, count = fl.ops.testlib.parts(fl.ones(1), [None, fl.ones(2)])
    assert first.tolist() == [2.0] and [t.tolist() for t in second] == [[2.0, 2.0]] and count == 2
    library.define("fill(Tensor(a!) x, float value) -> Tensor(a!)")
    library.impl("fill", lambda x, value: x.fill_(value), "CPU")
    x = fl.ones(2)
    assert fl.ops.testlib.fill(x, 3.0) is x and x.tolist() == [3.0, 3.0]


def test_an_implicit_composite_is_differentiable():
    library = Library("testlib", "FRAGMENT")
    library.define("square_sum(Tensor x) -> Tensor")
    library.impl("square_sum", lambda x: (x * x).sum(), "CompositeImplicitAutograd")
    x = fl.tensor([1.0, 2.0], requires_grad=True)
    fl.ops.testlib.square_sum(x).backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_kernels_for_the_librarys_own_operators():
    with fl.library._scoped_library("aten", "IMPL") as library:
        with pytest.raises(RuntimeError, match="aten::frac: the library has a kernel for CPU"):
            library.impl("frac", lambda x: x * 0 + 42, "CPU")
        library.impl("frac", lambda x: x * 0 + 42, "CPU", allow_override=True)
        assert aten.frac.default(fl.tensor([1.5])).tolist() == [42.0]
    assert aten.frac.default(fl.tensor([1.5])).tolist() == [0.5]
    with fl.library._scoped_library("aten", "IMPL") as library:
        seen = []

        def observed(x):
            seen.append(x.shape)
            return fl._flambeau._call_below_dispatch(aten.frac.default, (x,))

        library.impl("frac", observed, "Python")
        with LoggingMode():
            assert aten.frac.default(fl.tensor([1.5])).tolist() == [0.5]
        assert seen == [(1,)]
    with LoggingMode():
        assert aten.frac.default(fl.tensor([1.5])).tolist() == [0.5]
    assert seen == [(1,)]


# Custom operators.


def test_a_custom_operator_trains_in_a_module():
    op = cube()

    class Cube(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3, dtype=fl.float64)

        def forward(self, x):
            return op(self.linear(x))

    fl.manual_seed(0)
    model = Cube()
    x, target = fl.randn(8, 3, dtype=fl.float64), fl.randn(8, 3, dtype=fl.float64)
    optimizer = fl.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = ((model(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert fl.autograd.gradcheck(op, [fl.randn(4, dtype=fl.float64, requires_grad=True)])
    assert fl.autograd.gradgradcheck(op, [fl.randn(4, dtype=fl.float64, requires_grad=True)])
    assert getattr(fl.ops.testlib, op.__name__)(fl.tensor([2.0])).tolist() == [8.0]


def test_opcheck_accepts_what_is_right():
    op = cube()
    result = opcheck(op, (fl.randn(5, dtype=fl.float64, requires_grad=True),))
    assert set(result.values()) == {"SUCCESS"}
    assert {"test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"} <= set(result)
    assert opcheck(aten.mul.Tensor, (fl.randn(3, requires_grad=True), fl.randn(3)))["test_schema"] == "SUCCESS"


def test_opcheck_finds_what_is_wrong():
    library = Library("testlib", "FRAGMENT")
    library.define("secret_write(Tensor x) -> Tensor")
    library.impl("secret_write", lambda x: x.add_(1).clone(), "CPU")
    with pytest.raises(OpCheckError, match="Argument x is not defined as mutable but was mutated"):
        opcheck(fl.ops.testlib.secret_write.default, (fl.ones(2),))
    library.define("secret_view(Tensor x) -> Tensor")
    library.impl("secret_view", lambda x: x[:1], "CPU")
    with pytest.raises(OpCheckError, match="not defined to alias output but was aliasing"):
        opcheck(fl.ops.testlib.secret_view.default, (fl.ones(2),))

    @custom_op(fresh("wrong"), mutates_args=())
    def wrong(x: fl.Tensor) -> fl.Tensor:
        return x * x

    wrong.register_fake(lambda x: x.new_empty((7,)))
    with pytest.raises(OpCheckError, match="test_faketensor failed.*shape"):
        opcheck(wrong, (fl.ones(2),))
    wrong.register_autograd(lambda ctx, grad: grad * 3, setup_context=lambda ctx, inputs, output: None)
    with pytest.raises(OpCheckError, match="test_gradcheck failed"):
        opcheck(wrong, (fl.full((2,), 5.0, dtype=fl.float64, requires_grad=True),), test_utils="test_gradcheck")
    found = opcheck(wrong, (fl.ones(2),), raise_exception=False)
    assert isinstance(found["test_faketensor"], OpCheckError) and found["test_schema"] == "SUCCESS"


def test_without_a_derivative_a_backward_pass_is_an_error():
    @custom_op(fresh(), mutates_args=())
    def op(x: fl.Tensor) -> fl.Tensor:
        return x * x

    x = fl.ones(2, requires_grad=True)
    message = f"Trying to backward through {op._opoverload} but no autograd formula was registered"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        op(x).sum().backward()
    assert x.grad is None
    with fl.no_grad():
        assert not op(x).requires_grad
    from flambeau.autograd import forward_ad

    with forward_ad.dual_level():
        assert op(fl.ones(2)).tolist() == [1.0, 1.0]
        with pytest.raises((NotImplementedError, RuntimeError), match="forward AD"):
            op(forward_ad.make_dual(fl.ones(2), fl.ones(2)))


def test_tangents_follow_from_a_differentiable_backward():
    op = cube()
    from flambeau.autograd import forward_ad

    with forward_ad.dual_level():
        x = forward_ad.make_dual(fl.tensor([2.0]), fl.tensor([1.0]))
        assert forward_ad.unpack_dual(op(x)).tangent.tolist() == [12.0]


def test_written_arguments():
    @custom_op(fresh(), mutates_args={"out"})
    def write(x: fl.Tensor, out: fl.Tensor) -> None:
        out.numpy()[:] = x.numpy() * 2

    x, out = fl.ones(2), fl.zeros(2)
    version = out._version
    assert write(x, out) is None and out.tolist() == [2.0, 2.0] and out._version > version
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        write.register_autograd(lambda ctx, grad: grad)
    y = fl.ones(2, requires_grad=True)
    kept = y * 1
    saved = kept * kept
    with fl.no_grad():
        write(x, kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    target = fl.zeros(2)
    write_needs = fl.ones(2, requires_grad=True)

    @custom_op(fresh(), mutates_args={"out"})
    def copy(x: fl.Tensor, out: fl.Tensor) -> None:
        out.copy_(x)

    copy(write_needs, target)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        target.sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        copy(x, fl.zeros(2, requires_grad=True))


def test_an_output_must_not_be_an_input():
    @custom_op(fresh(), mutates_args=())
    def same(x: fl.Tensor) -> fl.Tensor:
        return x

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(fl.ones(2))


def test_lists_and_keyword_only_arguments_have_gradients():
    @custom_op(fresh(), mutates_args=())
    def weighted(xs: List[fl.Tensor], *, weight: float = 2.0) -> Tuple[fl.Tensor, fl.Tensor]:
        return sum(x * weight for x in xs), xs[0] * xs[1]

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.weight = keyword_only_inputs["weight"]
        ctx.save_for_backward(*inputs[0])

    def backward(ctx, grad_sum, grad_product):
        assert ctx.needs_input_grad == ([True, True],)
        a, b = ctx.saved_tensors
        return [grad_sum * ctx.weight + grad_product * b, grad_sum * ctx.weight + grad_product * a]

    weighted.register_autograd(backward, setup_context=setup)
    a, b = fl.tensor([2.0], requires_grad=True), fl.tensor([3.0], requires_grad=True)
    total, product = weighted([a, b], weight=5.0)
    (total + product).backward()
    assert a.grad.tolist() == [8.0] and b.grad.tolist() == [7.0]
    assert str(weighted._opoverload._schema) == f"{weighted._qualname}(Tensor[] xs, *, float weight=2.0) -> (Tensor, Tensor)"


@pytest.mark.parametrize("kind", ["Tensor", "Tensor?", "Tensor[]"])
def test_keyword_only_tensors_have_no_derivative(kind):
    # They would get no gradient and no tangent, and nothing would say so.
    name = fresh()
    fl.library.define(name, f"(Tensor x, *, {kind} w) -> Tensor")
    with pytest.raises(NotImplementedError, match="register_autograd with kwarg-only Tensor args") as raised:
        fl.library.register_autograd(name, lambda ctx, grad: grad)
    assert f"Got: {name}(Tensor x, *, {kind} w) -> Tensor" in str(raised.value)


def test_fake_kernels_and_their_absence():
    op = cube()
    assert op(fl.ones(3, device="meta")).shape == (3,)

    @custom_op(fresh(), mutates_args=())
    def plain(x: fl.Tensor) -> fl.Tensor:
        return x * 1

    with pytest.raises(RuntimeError, match="There was no fake impl registered"):
        plain(fl.ones(2, device="meta"))
    with pytest.raises(RuntimeError, match="a fake kernel is registered already"):
        op.register_fake(lambda x: x)


def test_kernels_by_type_of_device():
    @custom_op(fresh(), mutates_args=(), device_types="cuda")
    def only_cuda(x: fl.Tensor) -> fl.Tensor:
        return x * 2

    with pytest.raises(NotImplementedError, match="no kernel for Cpu"):
        only_cuda(fl.ones(1))

    @only_cuda.register_kernel("cpu")
    def _(x):
        return x * 3

    assert only_cuda(fl.ones(1)).tolist() == [3.0]
    with only_cuda.set_kernel_enabled("cpu", False):
        assert only_cuda(fl.ones(1)).tolist() == [2.0]
    with pytest.raises((ValueError, RuntimeError), match="tpu"):
        only_cuda.register_kernel("tpu", lambda x: x)


def test_rules_for_classes_and_modes():
    op = cube()
    plain = op(TwoTensor(fl.tensor([1.0]), fl.tensor([2.0])))
    assert type(plain) is TwoTensor and plain.a.tolist() == [1.0] and plain.b.tolist() == [8.0]

    @op.register_torch_dispatch(TwoTensor)
    def _(cls, func, types, args, kwargs):
        return cls(func(args[0].a), args[0].b)

    ruled = op(TwoTensor(fl.tensor([3.0]), fl.tensor([2.0])))
    assert ruled.a.tolist() == [27.0] and ruled.b.tolist() == [2.0]
    with LoggingMode() as mode:
        op(fl.ones(1))
    assert op._qualname in mode.names()
    fl.library.register_torch_dispatch(op, LoggingMode, lambda mode, func, types, args, kwargs: fl.full((1,), 9.0))
    with LoggingMode():
        assert op(fl.ones(1)).tolist() == [9.0]


def test_a_custom_operator_goes_through_the_backward_of_a_wrapper():
    op = cube()
    x = TwoTensor(fl.tensor([2.0]), fl.tensor([3.0])).requires_grad_()
    op(x).sum().backward()
    assert x.grad.a.tolist() == [12.0] and x.grad.b.tolist() == [27.0]


def test_vmap_calls_the_rule():
    op = cube()

    @op.register_vmap
    def _(info, in_dims, x):
        return op(x), in_dims[0]

    assert fl.func.vmap(op)(fl.tensor([1.0, 2.0])).tolist() == [1.0, 8.0]


def test_vmap_gives_the_rule_what_is_in_lists():
    @custom_op(fresh(), mutates_args=())
    def total(xs: List[fl.Tensor], by: List[int]) -> List[fl.Tensor]:
        return [x.sum() * factor for x, factor in zip(xs, by)]

    seen = []

    @total.register_vmap
    def _(info, in_dims, xs, by):
        seen.append((info.batch_size, in_dims, [x.shape for x in xs]))
        return [x.sum(0 if dim is None else 1 - dim) * factor for x, dim, factor in zip(xs, in_dims[0], by)], in_dims_of_sums(in_dims)

    def in_dims_of_sums(in_dims):
        return [None if dim is None else 0 for dim in in_dims[0]]

    x, shared = fl.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), fl.tensor([10.0, 20.0])
    sums, same = fl.func.vmap(lambda x: tuple(total([x, shared], [1, 2])), in_dims=1)(x.t())
    assert sums.tolist() == [3.0, 7.0, 11.0] and same.tolist() == [60.0] * 3
    assert seen == [(3, ([1, None], [None, None]), [(2, 3), (2,)])]
    # A list of which no tensor has a batch is no call for the rule.
    assert fl.func.vmap(lambda x: x.sum() + total([shared], [1])[0])(x).tolist() == [33.0, 37.0, 41.0]
    assert len(seen) == 1


def test_vmap_refuses_a_batch_of_keyword_only_tensors():
    @custom_op(fresh(), mutates_args=())
    def scaled(x: fl.Tensor, *, by: Optional[fl.Tensor] = None) -> fl.Tensor:
        return x * (1 if by is None else by)

    @scaled.register_vmap
    def _(info, in_dims, x, *, by=None):
        return scaled(x, by=by), in_dims[0]

    x = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
    message = re.escape(f"{scaled._opoverload}: expected a keyword-only argument `by` without a batch")
    with pytest.raises(NotImplementedError, match=message):
        fl.func.vmap(lambda x, by: scaled(x, by=by))(x, x)
    with pytest.raises(NotImplementedError, match="keyword-only argument `by` without a batch"):
        fl.func.vmap(lambda by: scaled(x, by=by))(x)
    assert fl.func.vmap(lambda x: scaled(x, by=fl.tensor([2.0, 3.0])))(x).tolist() == [[2.0, 6.0], [6.0, 12.0]]


def test_the_profiler_shows_it():
    op = cube()
    with profile() as prof:
        op(fl.ones(2, requires_grad=True)).sum().backward()
    assert {average.key: average.count for average in prof.key_averages()}[op._qualname] == 1


def test_calls_from_many_threads():
    op = cube()
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append((i, op(fl.full((9000,), float(i)))[0].item()))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(i, float(i) ** 3) for i in range(8)]


def test_an_exception_of_a_kernel_arrives_as_it_is():
    @custom_op(fresh(), mutates_args=())
    def failing(x: fl.Tensor) -> fl.Tensor:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        failing(fl.ones(1))
    with pytest.raises(LookupError, match="mine"):
        failing(fl.ones(1, requires_grad=True))


def test_a_kernel_that_returns_the_wrong_thing_is_an_error():
    @custom_op(fresh(), mutates_args=())
    def odd(x: fl.Tensor) -> fl.Tensor:
        return None

    with pytest.raises(RuntimeError, match="expected a result of type 'Tensor' of its kernel"):
        odd(fl.ones(1))


# Schemas from annotations.


def test_infer_schema():
    def f(
        x: fl.Tensor,
        y: Optional[fl.Tensor],
        xs: List[fl.Tensor],
        maybe: Sequence[Optional[fl.Tensor]],
        n: int = 3,
        sizes: Sequence[int] = (1, 2),
        scale: float = 1.5,
        flag: bool = False,
        mode: str = "mean",
        number: Union[int, float, bool] = 1,
        kind: Optional[fl.dtype] = None,
        *,
        where: fl.device = fl.device("cpu"),
    ) -> Tuple[fl.Tensor, List[fl.Tensor], int]:
        pass

    assert infer_schema(f, mutates_args=("x",), op_name="f") == (
        "f(Tensor(a0!) x, Tensor? y, Tensor[] xs, Tensor?[] maybe, SymInt n=3, SymInt[] sizes=[1,2], float scale=1.5, bool flag=False, "
        'str mode="mean", Scalar number=1, ScalarType? kind=None, *, Device where="cpu") -> (Tensor, Tensor[], SymInt)'
    )


@pytest.mark.parametrize(
    "function, written, message",
    [
        (lambda x: x, (), "Parameter x must have a type annotation"),
        (eval("lambda *xs: None"), (), "varargs"),
    ],
)
def test_what_infer_schema_refuses(function, written, message):
    with pytest.raises(ValueError, match=message):
        infer_schema(function, mutates_args=written)


def test_infer_schema_of_odd_functions():
    def no_return(x: fl.Tensor):
        pass

    def odd_type(x: set) -> fl.Tensor:
        pass

    def nothing(x: fl.Tensor) -> None:
        pass

    with pytest.raises(ValueError, match="No return type annotation"):
        infer_schema(no_return, mutates_args=())
    with pytest.raises(ValueError, match="Parameter x has unsupported type"):
        infer_schema(odd_type, mutates_args=())
    assert infer_schema(nothing, mutates_args="unknown") == "(Tensor(a0!) x) -> ()"
    with pytest.raises(ValueError, match="were not found in the custom op's signature"):
        infer_schema(nothing, mutates_args=("y",))
    with pytest.raises(ValueError, match="the string 'unknown'"):
        infer_schema(nothing, mutates_args="x")


def test_what_is_refused_says_why():
    with pytest.raises(NotImplementedError, match="Triton is not supported"):
        fl.library.triton_op("testlib::t", mutates_args=())
    with pytest.raises(NotImplementedError, match="no value on the device meta"):
        fl.library.get_ctx().new_dynamic_size()
    with pytest.raises(ValueError, match="name with a namespace"):
        custom_op("cube", lambda x: x, mutates_args=())
    assert fl.library.impl_abstract is fl.library.register_fake
    assert sys.modules["flambeau.library"] is fl.library
