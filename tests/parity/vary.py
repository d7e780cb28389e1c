"""Calls that the database does not make: the same arguments in odd layouts, of odd values, types and sizes, and shared."""

import random

import torch
from torch.utils._pytree import tree_map

from calls import tensors_of

INTS = [0, 1, -1, 2, -2, 3, -3, 7, 2**40, 2**63 - 1, -2**61]  # an int below -2^62 confuses PyTorch's SymInt
NUMBERS = [0, 1, -1, 2.5, -0.5, True, float("nan"), float("inf"), 300, 2**40, 1e-3]
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, 1e38, -1e38, 0.5, -2.5, 65504.0]


def each_tensor(values, change):
    return tree_map(lambda t: change(t) if isinstance(t, torch.Tensor) else t, values)


def laid(t, layout, size_one=False):
    """`t` again with other strides."""
    if layout == "transposed" and t.dim() >= 2:
        return t.transpose(0, -1).clone(memory_format=torch.contiguous_format).transpose(0, -1)
    if layout == "sliced":
        big = torch.zeros([n * 2 + 1 for n in t.shape], dtype=t.dtype)
        view = big[tuple(slice(1, None, 2) for _ in t.shape)]
        view.copy_(t)
        return view
    if layout == "channels_last" and t.dim() == 4:
        return t.clone(memory_format=torch.channels_last)
    if layout == "expanded" and t.dim() >= 1 and t.shape[0] > 0:
        return t[:1].clone().expand(t.shape)
    if layout == "ones":
        strides = [s if n != 1 else random.choice([0, 1, 7, 100]) for n, s in zip(t.shape, t.stride())]
        return torch.as_strided(t, t.shape, strides, t.storage_offset())
    if layout == "inner" and t.dim() >= 1:
        big = torch.zeros((*t.shape[:-1], t.shape[-1] + 3), dtype=t.dtype)
        view = big[..., 2:2 + t.shape[-1]]
        view.copy_(t)
        return view
    return t


def layouts(operator, values):
    for layout in ("transposed", "sliced", "channels_last", "expanded", "ones", "inner"):
        yield "layouts", each_tensor(values, lambda t: laid(t, layout))
    kinds = ["transposed", "sliced", "inner", "plain"]
    yield "layouts", each_tensor(values, lambda t: laid(t, random.choice(kinds)))


def sprinkled(t):
    """`t` with special values at some indices."""
    made = t.clone()
    flat = made.view(-1) if made.is_contiguous() else made.flatten()
    for i in range(0, flat.numel(), random.choice([1, 2, 3])):
        if t.is_floating_point():
            flat[i] = random.choice(SPECIAL)
        elif t.is_complex():
            flat[i] = complex(random.choice(SPECIAL), random.choice(SPECIAL))
        elif t.dtype != torch.bool:
            info = torch.iinfo(t.dtype)
            flat[i] = random.choice([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 7])
    return flat.view(made.shape)


def specials(operator, values):
    real = lambda t: t.is_floating_point()
    yield "specials", each_tensor(values, lambda t: sprinkled(t) if real(t) else t)
    yield "specials", each_tensor(values, sprinkled)
    first = next((t for t in tensors_of(values)), None)
    yield "specials", each_tensor(values, lambda t: sprinkled(t) if t is first else t)


def sizes(operator, values):
    yield "sizes", each_tensor(values, lambda t: t[:0] if t.dim() else t)
    yield "sizes", each_tensor(values, lambda t: t[..., :0] if t.dim() else t)
    yield "sizes", each_tensor(values, lambda t: t[:1] if t.dim() else t)
    yield "sizes", each_tensor(values, lambda t: t.flatten()[0] if t.numel() else t)
    yield "sizes", each_tensor(values, lambda t: t.unsqueeze(0))
    yield "sizes", each_tensor(values, lambda t: t[0] if t.dim() and t.shape[0] else t)
    chosen = random.choice(tensors_of(values) or [None])
    yield "sizes", each_tensor(values, lambda t: t.flatten()[0] if t is chosen and t.numel() else t)
    yield "sizes", each_tensor(values, lambda t: t[:0] if t is chosen and t.dim() else t)
    if operator.parameters and operator.parameters[0].base == "Tensor":
        wide = lambda t: t.flatten().repeat(2 + 70 // max(1, t.numel())) if t.dim() <= 1 else t
        yield "sizes", each_tensor(values, wide)


def types(operator, values):
    kinds = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
             torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
             torch.uint16, torch.uint32, torch.uint64]
    safe = lambda t: torch.nan_to_num(t).clamp(-100, 100) if t.is_floating_point() else t
    for kind in kinds:
        yield "types", each_tensor(values, lambda t: safe(t).to(kind))
    for _ in range(4):
        yield "types", each_tensor(values, lambda t: safe(t).to(random.choice(kinds)) if random.random() < 0.5 else t)


def changed(parameter, value):
    """Another value for an argument that is no tensor."""
    if parameter.base == "int" and parameter.is_list and value is not None:
        made = list(value)
        if made and random.random() < 0.8:
            made[random.randrange(len(made))] = random.choice(INTS)
        else:
            made = random.choice([[], made + [1], made[:-1], made[::-1], made + made])
        return made
    if parameter.base == "int" and not parameter.is_list:
        return random.choice(INTS)
    if parameter.base == "Scalar":
        return random.choice(NUMBERS)
    if parameter.base == "float" and not parameter.is_list:
        return random.choice([0.0, 1.0, 0.5, -1.0, 1e-5, float("inf"), float("nan")])
    if parameter.base == "bool":
        return not value if isinstance(value, bool) else value
    if parameter.base == "ScalarType":
        return random.choice([torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.uint8,
                              torch.complex64, torch.complex128, torch.uint16])
    if parameter.base == "Tensor" and parameter.optional and not parameter.is_list:
        return None
    return value


def arguments(operator, values):
    indices = [i for i, p in enumerate(operator.parameters) if p.base != "Tensor" or p.optional]
    for _ in range(min(8, 4 * len(indices))):
        made = list(values)
        for index in random.sample(indices, random.choice([1, min(2, len(indices))])):
            made[index] = changed(operator.parameters[index], made[index])
        yield "arguments", made


def shared(operator, values):
    """In-place calls whose operands overlap: the argument itself, its transpose, parts of it."""
    if not operator.parameters or not operator.parameters[0].written or not isinstance(values[0], torch.Tensor):
        return
    target = values[0]
    others = [i for i, v in enumerate(values) if i and isinstance(v, torch.Tensor) and not operator.parameters[i].written]
    views = [lambda t: t, lambda t: t[:1], lambda t: t[..., :1], lambda t: t[-1:], lambda t: t.flip(0), lambda t: t.mT]
    for i in others:
        for view in views[:4] + views[5:]:
            if target.dim() >= 2 or view is views[0] or (target.dim() == 1 and view in views[1:4]):
                made = list(values)
                made[i] = view(target)
                yield "shared", made
    if target.dim() and target.shape[0] > 2:
        for i in others:
            made = list(values)
            made[0], made[i] = target[1:], target[:-1]
            yield "shared", made


def operator_variants(operators, operator, values):
    """The same call in place and into an output, where we have those."""
    base, _, overload = operator.name.partition(".")
    twin = operators.get(base + "_" + ("." + overload if overload else ""))
    if twin is not None and len(twin.parameters) == len(operator.parameters):
        yield twin, "in place", values
    names = [p.name for p in operator.parameters]
    for other in operators.values():
        if other.name.partition(".")[0] == base and [p.name for p in other.parameters if not p.written] == names:
            outs = len(other.parameters) - len(names)
            written = other.parameters[-outs:] if outs else []
            if outs and all(p.written and not p.is_list for p in written):
                yield from outputs(operator, other, values, outs)


def outputs(operator, other, values, count):
    try:
        results = operator.run(values)
    except Exception:
        return
    results = results if isinstance(results, tuple) else (results,)
    # Without elements, PyTorch's results may have negative sizes, and sizes of which no number of 64 bits holds twice as many.
    usual = lambda t: isinstance(t, torch.Tensor) and all(0 <= n < 2**60 for n in t.shape)
    if len(results) != count or not all(usual(t) for t in results):
        return
    fresh = lambda t: torch.zeros(t.shape, dtype=t.dtype)
    transposed = lambda t: laid(fresh(t), "transposed")
    spread = lambda t: laid(fresh(t), "sliced")
    empty = lambda t: torch.zeros(0, dtype=t.dtype)
    wide = lambda t: torch.zeros(t.shape, dtype=torch.float64)
    whole = lambda t: torch.zeros(t.shape, dtype=torch.int32)
    for make in (fresh, transposed, spread, empty, wide, whole):
        yield other, "out", [*values, *(make(t) for t in results)]


def variations(operator, values, budget):
    """At most `budget` calls like this one, as (origin, arguments)."""
    made = []
    for family in (layouts, specials, sizes, types, arguments, shared):
        family_calls = family(operator, values)
        while True:
            try:
                made.append(next(family_calls))
            except StopIteration:
                break
            except (RuntimeError, IndexError, ValueError, TypeError):
                break
    random.shuffle(made)
    return made[:budget]
