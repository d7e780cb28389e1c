"""Hooks, functions written in Python and subclasses: the same program in PyTorch and here, and what each says happened.

Run it where PyTorch is installed, with the package on the path: `PYTHONPATH=crates/python/python python functions.py`.
"""

import sys

import flambeau
import torch


def numbers(value):
    return value.detach().tolist() if hasattr(value, "detach") else value


def attempt(log, name, run):
    """Notes what a call gives: its result, or the kind of exception."""
    try:
        log.append((name, numbers(run())))
    except Exception as error:
        log.append((name, type(error).__mro__[-3].__name__ if isinstance(error, NotImplementedError) else type(error).__name__))


def leaf(lib, *values):
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


def hooks(lib, log):
    x = leaf(lib, 1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: log.append(("first", numbers(g))))
    y.register_hook(lambda g: g * 2)
    last = y.register_hook(lambda g: log.append(("third", numbers(g))))
    y.retain_grad()
    x.register_hook(lambda g: log.append(("leaf", numbers(g))))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", numbers(p.grad))))
    y.grad_fn.register_hook(lambda i, o: log.append(("node", [numbers(g) for g in i if g is not None], numbers(o[0]))))
    y.grad_fn.register_prehook(lambda o: log.append(("before node", numbers(o[0]))))
    (y * y).sum().backward(retain_graph=True)
    log.append(("grads", numbers(x.grad), numbers(y.grad)))
    last.remove()
    (y * y).sum().backward()
    log.append(("grads", numbers(x.grad), numbers(y.grad)))
    attempt(log, "hook on constant", lambda: lib.ones(1).register_hook(print))
    attempt(log, "hook gives text", lambda: (lambda z: (z.register_hook(lambda g: "x"), z.sum().backward()))(leaf(lib, 1.0)))
    attempt(log, "hook of another size", lambda: (lambda z: (z.register_hook(lambda g: g[:1]), z.sum().backward()))(leaf(lib, 1.0, 2.0)))


def functions(lib, log):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, k, flag):
            ctx.k = k
            ctx.save_for_backward(x)
            log.append(("forward", lib.is_grad_enabled(), ctx.needs_input_grad))
            return x * k, (x > 0), "text"

        @staticmethod
        def backward(ctx, a, b, c):
            (x,) = ctx.saved_tensors
            log.append(("backward", numbers(a), c, ctx.needs_input_grad, numbers(x)))
            return a * ctx.k, None, None

    x = leaf(lib, 1.0, -2.0)
    y, positive, text = Twice.apply(x, 5, True)
    log.append((numbers(y), y.requires_grad, positive.requires_grad, text, y.grad_fn.name()))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    attempt(log, "third pass", lambda: y.sum().backward())
    log.append(numbers(x.grad))
    a, b, _ = Twice.apply(x.detach(), 5, True)
    log.append((a.requires_grad, numbers(a)))
    for name, result in {
        "too few": lambda g: g,
        "too many": lambda g: (g, g, g),
        "for a number": lambda g: (g, g),
        "a number": lambda g: (3.0, None),
        "none": lambda g: (None, None),
        "more nones": lambda g: (g, None, None),
    }.items():
        made = type("Made", (lib.autograd.Function,), {
            "forward": staticmethod(lambda ctx, x, k: x * k),
            "backward": staticmethod(lambda ctx, g, result=result: result(g)),
        })
        z = leaf(lib, 1.0)
        attempt(log, name, lambda: (made.apply(z, 2).sum().backward(), numbers(z.grad) if z.grad is not None else None)[1])


def subclasses(lib, log):
    attribute = f"__{lib.__name__}_function__"

    def answer(cls, func, types, args=(), kwargs=None):
        log.append((func.__name__.strip("_"), [t.__name__ for t in types], len(args), sorted(kwargs or {})))
        return getattr(super(Mine, cls), attribute)(func, types, args, kwargs or {})

    Mine = type("Mine", (lib.Tensor,), {attribute: classmethod(answer)})
    Next = type("Next", (Mine,), {})
    x, y, z = lib.ones(2).as_subclass(Mine), lib.ones(2), lib.ones(2).as_subclass(Next)
    for made in (x + y, lib.add(y, x, alpha=2), y.mul(x), x.exp(), lib.cat([y, x]), x + z, lib.add(x, z), x.sum(), x.max(0)[0], x[0]):
        log.append((type(made).__name__, numbers(made.as_subclass(lib.Tensor))))


def main():
    agree = 0
    for program in (hooks, functions, subclasses):
        ours, theirs = [], []
        program(flambeau, ours)
        program(torch, theirs)
        for number, (a, b) in enumerate(zip(ours, theirs)):
            if a != b:
                print(f"{program.__name__} {number}: here {a}, PyTorch {b}")
            agree += a == b
        if len(ours) != len(theirs):
            print(f"{program.__name__}: {len(ours)} notes here, {len(theirs)} by PyTorch")
    print(agree, "notes agree")


if __name__ == "__main__":
    sys.exit(main())
