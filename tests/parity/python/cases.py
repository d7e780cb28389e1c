"""One case: the same call in PyTorch and here, forwards, with `out=`, and backwards twice; each gives a list of (kind, words)."""

import pathlib
import sys

import torch

import compare
import flambeau
from convert import here, tensor_there, tensors, twin
from names import is_wrapper, rebuilt

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from double import in_double, wide


class Case:
    """Arguments of a call, as PyTorch's database gives them."""

    def __init__(self, sample):
        self.arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.after = sample.output_process_fn_grad

    def theirs(self):
        return twin(self.arguments)

    def ours(self):
        return here(self.arguments)

    def words(self):
        return told(self.arguments)[:400]


def told(value):
    """An argument in few words."""
    if isinstance(value, torch.Tensor):
        few = f" {value.tolist()}" if value.numel() <= 6 else ""
        return f"<{str(value.dtype)[6:]} {list(value.shape)}{'' if value.is_contiguous() else f' steps {list(value.stride())}'}{few}>"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(told(item) for item in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}={told(item)}" for key, item in value.items()) + "}"
    return repr(value)


def attempt(function, arguments, **more):
    """What a call gives, or what it raises."""
    first, rest, named = arguments
    try:
        return function(first, *rest, **named, **more), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic that comes through is a finding
        return None, error


def forward(case, theirs, ours, has_values=True):
    """The call itself, and what it has written into its arguments."""
    a, b = case.theirs(), case.ours()
    result, error = attempt(theirs, a)
    mine, my_error = attempt(ours, b)
    found = compare.refusals(error, my_error)
    if found or error is not None:
        return found
    found = compare.results(result, mine, has_values)
    if any(kind == "values" for kind, _ in found):
        has_values = not is_random(case, theirs)
        nearer = has_values and is_nearer(case, theirs, result, mine)
        if nearer or not has_values:
            found = [f for f in found if f[0] != "values"]
        # What an in-place call has written is its result.
        has_values = has_values and not (nearer and mine is b[0])
    if has_values:
        pairs = enumerate(zip(tensors(list(a)), tensors(list(b))))
        found += [f for i, (x, y) in pairs for f in compare.of_tensors(x, y, f"argument {i} afterwards") if f[0] != "strides"]
    if (result is a[0]) != (mine is b[0]):
        found.append(("identity", f"the input itself there: {result is a[0]}, here: {mine is b[0]}"))
    return found


def is_random(case, theirs):
    """Whether PyTorch itself gives something else the second time: dropout, with some arguments."""
    free = rebuilt(theirs, torch) if is_wrapper(theirs) else theirs
    result, _ = attempt(free, case.theirs())
    again, _ = attempt(free, case.theirs())
    pairs = zip(tensors(result), tensors(again))
    return any(not torch.equal(*(t.to_dense().to(wide(t.dtype)).nan_to_num() for t in pair)) for pair in pairs)


# Errors of ill-conditioned problems scatter: those of 300 random systems of 28 equations were 0.04 to 12.2 times those of PyTorch.
ROUNDING = 16


def is_nearer(case, theirs, result, mine):
    """Whether, where the two differ in rounding, ours is right by what 64 bits give."""
    exact, error = attempt(theirs, in_double(case.theirs()))
    return error is None and are_nearer(exact, result, mine)


def are_nearer(exact, result, mine):
    """The same of results, given those of 64 bits: ours are within the tolerances of them, or about as near to them as theirs are."""
    for a, b, c in zip(tensors(exact), tensors(result), tensors(mine)):
        if b.dtype == wide(b.dtype):
            if compare.values(b, c):
                return False
            continue
        if compare.values(a.to(b.dtype), c) is None:
            continue
        finite = torch.isfinite(a)
        away, ours_away = ((x.to(a.dtype) - a)[finite].abs().max() if finite.any() else 0 for x in (b, tensor_there(c)))
        if compare.values(b[~finite], here(tensor_there(c)[~finite])) or not ours_away <= ROUNDING * away:
            return False
    return any(t.dtype != wide(t.dtype) for t in tensors(result))


def out(case, theirs, ours, has_values=True):
    """With results to write into: of the right sizes, of others, and of another type."""
    result, error = attempt(theirs, case.theirs())
    nested = isinstance(result, (list, tuple)) and any(isinstance(part, (list, tuple)) for part in result)
    if error is not None or not tensors(result) or nested or any(t.layout != torch.strided for t in tensors(result)):
        return []
    found = []
    kinds = {"alike": torch.empty_like, "empty": lambda t: t.new_empty(0), "int8": lambda t: torch.empty_like(t, dtype=torch.int8),
             "float64": lambda t: torch.empty_like(t, dtype=torch.float64), "transposed": lambda t: t.new_empty(t.shape[::-1]).T if t.dim() < 3 else torch.empty_like(t)}
    for name, make in kinds.items():
        blank = lambda t: make(t).zero_()
        there = blank(result) if isinstance(result, torch.Tensor) else tuple(blank(t) for t in result)
        mine = here(there)
        a, error = attempt(theirs, case.theirs(), out=there)
        b, my_error = attempt(ours, case.ours(), out=mine)
        new = compare.refusals(error, my_error)
        if not new and error is None:
            new = compare.results(there, mine, has_values, "out", [t.dtype for t in tensors(result)])
            if any(kind == "values" for kind, _ in new) and is_nearer(case, theirs, there, mine):
                new = [f for f in new if f[0] != "values"]
            if isinstance(a, torch.Tensor) and (a is there) != (b is mine):
                new.append(("identity", f"the given result comes back there: {a is there}, here: {b is mine}"))
        found += [(f"out {kind}", f"{name}: {words}") for kind, words in new]
    return found


def cotangents(results, seed):
    """Random tensors to send back from each of the results."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype) for t in results]


def tracked(values):
    return [t for t in tensors(values) if t.requires_grad]


def gradients(grad, results, sources, with_, again):
    """Gradients of the sources that get one; None stands for the others."""
    try:
        return grad(results, sources, with_, allow_unused=True, create_graph=again), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


def same_gradients(theirs, ours, where):
    found = []
    for i, (a, b) in enumerate(zip(theirs, ours)):
        if a is None or b is None:
            # No gradient and one of zeros say the same.
            rest = a if b is None else b
            if rest is not None and bool((rest != 0).any()):
                found.append((where, f"source {i}: {'none' if a is None else 'some'} there, {'none' if b is None else 'some'} here"))
            continue
        found += [(where, f"source {i}: {kind} {words}") for kind, words in compare.of_tensors(a.detach(), b.detach(), "")
                  if kind in ("values", "sizes", "type")]
    return found


def backward(case, theirs, ours, twice):
    """Gradients of the tensors that want them, and, of those, gradients once more."""
    a, b = case.theirs(), case.ours()
    result, error = attempt(theirs, a)
    mine, my_error = attempt(ours, b)
    if error is not None or my_error is not None:
        return []  # the forward comparison has said it
    found = [f for f in compare.results(result, mine, True) if f[0] in ("requires_grad", "is_leaf", "structure", "sizes", "type")]
    results, my_results = tracked(case.after(result)), tracked(mine)
    sources, my_sources = tracked(list(a)), tracked(list(b))
    if found or not results or len(results) != len(my_results):
        return found
    if is_random(case, theirs):
        return []
    with_ = cotangents(results, 0)
    got, error = gradients(torch.autograd.grad, results, sources, with_, twice)
    my_got, my_error = gradients(flambeau.autograd.grad, my_results, my_sources, here(with_), twice)
    found = [(f"gradient {kind}", words) for kind, words in compare.refusals(error, my_error)]
    if found or error is not None:
        return found
    found = same_gradients(got, my_got, "gradient")
    if found and gradients_are_nearer(case, theirs, with_, got, my_got):
        found = []
    return found if found or not twice else second(got, my_got, sources, my_sources)


def gradients_are_nearer(case, theirs, with_, got, my_got):
    """Whether gradients that differ in rounding are as near to those of 64 bits as theirs."""
    given = in_double(case.theirs())
    result, error = attempt(theirs, given)
    if error is not None:
        return False
    results, sources = tracked(case.after(result)), tracked(list(given))
    exact, error = gradients(torch.autograd.grad, results, sources, [t.to(wide(t.dtype)) for t in with_], False)
    if error is not None or any((a is None) != (b is None) for a, b in zip(got, my_got)):
        return False
    return are_nearer(*([t for t in part if t is not None] for part in (exact, got, my_got)))


def second(got, my_got, sources, my_sources):
    """The gradients of random combinations of first gradients."""
    chosen = [i for i, t in enumerate(got) if t is not None and t.requires_grad]
    mine = [i for i in chosen if my_got[i] is not None and my_got[i].requires_grad]
    if not mine:
        return []
    # Where ours is a constant and theirs a graph of zeros, the others must still agree.
    results, my_results = [got[i] for i in mine], [my_got[i] for i in mine]
    with_ = cotangents(results, 1)
    twice, error = gradients(torch.autograd.grad, results, sources, with_, False)
    my_twice, my_error = gradients(flambeau.autograd.grad, my_results, my_sources, here(with_), False)
    found = [(f"second {kind}", words) for kind, words in compare.refusals(error, my_error)]
    return found or ([] if error is not None else same_gradients(twice, my_twice, "second gradient"))
