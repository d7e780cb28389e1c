"""What nobody reaches is gone: bytes, objects and nodes after many iterations, and cycles through graphs, hooks, contexts and attributes.

`FLAMBEAU_LEAK_ITERATIONS` is how often each case is repeated, 2,000 unless given.
"""

import copy
import ctypes
import gc
import os
import random
import sys
import threading
import weakref

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.autograd import Function
from flambeau.autograd.graph import saved_tensors_hooks

ITERATIONS = int(os.environ.get("FLAMBEAU_LEAK_ITERATIONS", 2000))


class _Malloc(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def _allocated():
    """Bytes that malloc has handed out; 0 where the C library does not tell."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return 0
    ask.restype = _Malloc
    told = ask()
    return told.uordblks + told.hblkhd


def collect():
    """Whatever one collection sets free may free more."""
    while gc.collect():
        pass


def living():
    """How many tensors, nodes seen from Python and contexts there are, and how many nodes of graphs."""
    kinds = (fb.Tensor, fb.autograd.Node, fb.autograd.function.FunctionCtx)
    return sum(isinstance(thing, kinds) for thing in gc.get_objects()), fb._flambeau._live_nodes()


def check(case, iterations=ITERATIONS):
    """After `iterations` calls there is nothing that was not there before, and no memory in use that grows with their number."""
    for _ in range(iterations // 10 + 50):
        case()
    collect()
    before, blocks, allocated = living(), sys.getallocatedblocks(), _allocated()
    for _ in range(iterations):
        case()
    collect()
    assert living() == before
    blocks, allocated = sys.getallocatedblocks() - blocks, _allocated() - allocated
    # Free lists and caches of the interpreter grow at first, whatever the number of iterations.
    assert blocks < iterations / 4 + 700, f"{blocks / iterations} blocks an iteration"
    assert allocated < iterations * 8 + (1 << 18), f"{allocated / iterations} bytes an iteration"


def leaf(*sizes):
    return fb.ones(*(sizes or (3,)), requires_grad=True)


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Pair(Function):
    @staticmethod
    def forward(ctx, x):
        first, second = x * 2, x * 3
        ctx.mark_non_differentiable(second)
        ctx.save_for_backward(x, first)
        return first, second

    @staticmethod
    def backward(ctx, first, second):
        return first * 2


# Calls that leave nothing behind.

PLAIN = leaf()
(PLAIN * 2).sum().backward()
MATRIX = fb.ones(3, 4)
ADAM = fb.optim.Adam([leaf(), leaf(2, 2)])


def attribute():
    fb.ones(3).note = 1


def attribute_of_a_gradient():
    p = leaf()
    p.sum().backward()
    p.grad.note = [1]
    assert p.grad.note == [1]


def subclass():
    class Own(fb.Tensor):
        pass

    Own(fb.ones(2)).me = 1


def adam():
    for group in ADAM.param_groups:
        for p in group["params"]:
            p.sum().backward()
    ADAM.step()
    ADAM.zero_grad()


def training():
    layer = nn.Linear(3, 2)
    optimizer = fb.optim.Adam(layer.parameters())
    layer(fb.ones(4, 3)).sum().backward()
    optimizer.step()


CALLS = {
    "gradient": lambda: PLAIN.grad,
    "attribute": attribute,
    "attribute of a gradient": attribute_of_a_gradient,
    "view": lambda: MATRIX.view(4, 3),
    "view of a leaf": lambda: PLAIN.view(-1).t,
    "graph": lambda: (PLAIN * 2).sum().grad_fn.next_functions,
    "deepcopy": lambda: copy.deepcopy(MATRIX),
    "deepcopy of a parameter": lambda: copy.deepcopy(nn.Parameter(MATRIX)),
    "step of Adam": adam,
    "saved output": lambda: Double.apply(PLAIN).sum().backward(),
    "data": lambda: PLAIN.data,
    "weak reference": lambda: weakref.ref(MATRIX + 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_leave_nothing_behind(name):
    check(CALLS[name])


def test_classes_and_training_leave_nothing_behind():
    # A class takes some 200 blocks.
    check(subclass, ITERATIONS // 10)
    check(training, ITERATIONS // 10)


# Cycles.


def hook_on_itself():
    p = leaf()
    p.register_hook(lambda g: g * (p.detach() != 0))


def hook_after_use():
    p = leaf()
    (p * p).sum().backward()
    p.register_hook(lambda g: g * (p.detach() != 0))
    (p * p).sum().backward()


def hook_on_a_result():
    y = leaf() * 2
    y.register_hook(lambda g: g * y.detach())
    y.sum().backward()


def hook_on_the_loss():
    p = leaf()
    loss = (p.exp() * 2).sum()
    p.register_hook(lambda g: g * loss.detach())


def hook_on_the_loss_that_saved_it():
    p = leaf()
    loss = (p * p).sum()
    p.register_hook(lambda g: g * loss.detach())


def hook_kept_with_its_handle():
    p = leaf()
    p.handle = p.register_hook(lambda g: p)


def hook_that_is_a_method():
    y = leaf() * 2
    y.register_hook(y.mul)


def hook_after_accumulation():
    p = leaf()
    p.register_post_accumulate_grad_hook(lambda leaf: p)
    p.sum().backward()


def hook_on_a_node():
    node = (leaf() * 2).grad_fn
    node.register_hook(lambda *grads: node)
    node.register_prehook(lambda grads: node)


def hook_beside_a_retained_gradient():
    y = leaf() * 2
    y.retain_grad()
    y.register_hook(lambda g: y.grad)
    y.sum().backward()


def context_with_its_output():
    Double.apply(leaf())


def context_with_its_output_after_backward():
    Double.apply(leaf()).sum().backward()


def written_in_place():
    InPlace.apply(leaf() * 1).sum().backward()
    InPlace.apply(leaf() * 1)


def marked():
    Pair.apply(leaf())


def context_with_everything():
    class Everything(Function):
        @staticmethod
        def forward(ctx, x, other):
            ctx.x, ctx.other, ctx.me = x, other, ctx
            ctx.y = x + 1
            return ctx.y

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    box = []
    y = Everything.apply(leaf(), box)
    box.append((y, box))


def context_through_a_tuple():
    class Argument(Function):
        @staticmethod
        def forward(ctx, x, box):
            ctx.box = box
            return x + 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    box = {}
    box["y"] = Argument.apply(leaf(), (box,)).sum()


def packed():
    box = []
    with saved_tensors_hooks(lambda x: (x, box), lambda pair: pair[0]):
        y = leaf().exp()
    box.append(y)


def module_that_hooks_itself():
    module = nn.Linear(2, 2)
    module.weight.register_hook(lambda g: module.bias is None or None)
    module.register_forward_hook(lambda *_: module.weight)
    module.register_full_backward_hook(lambda *_: None)
    module(fb.ones(1, 2)).sum().backward()


def module_with_a_bound_hook():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.handles = [p.register_hook(self.seen) for p in self.parameters()]

        def seen(self, grad):
            self.last = grad

    Own().layer(fb.ones(1, 2)).sum().backward()


def attribute_of_itself():
    t = fb.ones(3)
    t.me = t


def attributes_of_each_other():
    t, u = leaf(), nn.Parameter(fb.ones(2))
    t.other, u.other = u, [t]
    (t.sum() + u.sum()).backward()


def attribute_of_its_gradient():
    p = leaf()
    p.sum().backward()
    p.grad.of = p


def attribute_of_its_base():
    t = leaf() * 1
    v = t.view(-1)
    t.view_of_it = v
    del t


def class_of_its_object():
    class Own(fb.Tensor):
        pass

    Own.first = Own(fb.ones(2))
    Own.first.me = Own.first


def deep_chain():
    y = leaf()
    for step in range(100):
        y = y * 2
        if step == 0:
            first = y
    first.register_hook(lambda g: y)
    del first


def chain_of_contexts():
    y = leaf()
    for _ in range(5):
        y = Double.apply(y)


CYCLES = [
    hook_on_itself,
    hook_after_use,
    hook_on_a_result,
    hook_on_the_loss,
    hook_on_the_loss_that_saved_it,
    hook_kept_with_its_handle,
    hook_that_is_a_method,
    hook_after_accumulation,
    hook_on_a_node,
    hook_beside_a_retained_gradient,
    context_with_its_output,
    context_with_its_output_after_backward,
    written_in_place,
    marked,
    context_with_everything,
    context_through_a_tuple,
    packed,
    module_that_hooks_itself,
    module_with_a_bound_hook,
    attribute_of_itself,
    attributes_of_each_other,
    attribute_of_its_gradient,
    attribute_of_its_base,
    class_of_its_object,
    deep_chain,
    chain_of_contexts,
]


@pytest.mark.parametrize("case", CYCLES, ids=lambda case: case.__name__)
def test_cycles_are_collected(case):
    case()
    collect()
    before = living()
    case()
    collect()
    assert living() == before


@pytest.mark.parametrize(
    "case",
    [hook_on_itself, context_with_its_output, written_in_place, module_that_hooks_itself, attribute_of_itself, packed],
    ids=lambda case: case.__name__,
)
def test_cycles_leave_nothing_behind(case):
    check(case)


class Keeper:
    """Something to see go."""


def draw(rng, keeper):
    """A graph with cycles drawn at random, each of which one object owns; returns its end, which keeps a hook, and so the keeper."""
    things = [leaf()]
    over_end = rng.random() < 0.5
    for _ in range(rng.randrange(1, 8)):
        x = things[-1]
        match rng.randrange(7):
            case 0:
                things.append(x * 2)
            case 1:
                things.append(x * x)
            case 2:
                things.append(x.view(3))
            case 3:
                # Its context holds its output, which would be a second owner of what the end owns.
                things.append(x * 3 if over_end else Double.apply(x))
            case 4:
                x.other = [None if over_end else x, keeper]
            case 5:
                x.register_hook(lambda g, x=None if over_end else x: keeper and None)
            case 6:
                x.exp().sum().backward(retain_graph=True)
    end = things[-1].sum()
    hooked = rng.choice(things)
    kept = end if over_end else rng.choice([hooked, [hooked, keeper]])
    hooked.register_hook(lambda g: (kept, keeper) and None)
    return end


def test_what_is_reachable_is_kept_and_what_is_not_is_gone():
    gc.disable()
    try:
        for seed in range(300):
            collect()
            before = living()
            keeper = Keeper()
            gone = weakref.ref(keeper)
            end = draw(random.Random(seed), keeper)
            del keeper
            gc.collect()
            assert gone() is not None
            # Hooks of the graph are called after a collection as before it.
            end.backward()
            gc.collect()
            assert gone() is not None
            del end
            collect()
            assert (gone() is None, living()) == (True, before), seed
    finally:
        gc.enable()


def test_a_hook_that_only_the_graph_reaches_is_called():
    called = []

    def make():
        p, q = leaf(), leaf()
        y = p * 2
        y.register_hook(lambda g: called.append("result"))
        z = Double.apply(y)
        z.grad_fn.register_hook(lambda *grads: called.append("node"))
        p.register_hook(lambda g: called.append("leaf"))
        q.register_hook(lambda g: called.append(q) and None)
        return (z * q).sum(), q

    end, q = make()
    collect()
    end.backward()
    called = [name for name in called if isinstance(name, str)]
    assert {"result", "node"} <= set(called)


def test_a_node_that_a_hook_holds_lives_as_long_as_the_graph():
    count, keeper = 0, Keeper()
    gone = weakref.ref(keeper)

    def make(keeper):
        b = leaf(1) * 1
        node = b.grad_fn

        def hook(*grads):
            nonlocal count
            count += 1
            return (node, keeper) and None

        b.register_hook(hook)
        return (b * 1).sum()

    end = make(keeper)
    del keeper
    end.backward(retain_graph=True)
    gc.collect()
    end.backward(retain_graph=True)
    assert count == 2 and gone() is not None
    del end
    collect()
    assert gone() is None


def test_attributes_of_a_gradient_outlive_a_cycle_of_its_object():
    p = leaf()
    p.sum().backward()
    grad = p.grad
    grad.note, grad.box = "kept", [grad]
    del grad
    collect()
    assert p.grad.note == "kept" and p.grad.box[0] is p.grad


def test_collections_beside_calls_without_the_lock():
    """Attributes and hooks of tensors that other threads work with are never taken for garbage."""
    p = leaf(64, 64)
    p.note = [1]
    kept = [Keeper(), p]
    seen = weakref.ref(kept[0])
    p.register_hook(lambda g, kept=kept: kept and None)
    del kept
    y = p * 2
    y.note = [y]
    stop, failures = threading.Event(), []

    def work():
        while not stop.is_set():
            z = (y.exp() @ p).sum()
            z.backward(retain_graph=True)
            if p.note != [1] or y.note[0] is not y or seen() is None:
                failures.append(1)
                return

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        gc.collect()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures and p.note == [1] and seen() is not None
    del y, p
    collect()
    assert seen() is None


def test_objects_are_whole_while_they_go():
    """Finalizers and weak references of a cycle see its tensors."""
    seen = []

    class Last:
        def __del__(self):
            seen.append((self.t.sum().item(), self.t.note))

    def make():
        t, last = fb.ones(3), Last()
        last.t, t.note, t.last = t, "note", last
        weakref.finalize(t, seen.append, "finalized")

    make()
    collect()
    assert sorted(map(str, seen)) == ["(3.0, 'note')", "finalized"]
