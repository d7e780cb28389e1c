"""A call of an operator: its arguments in the order of the schema, copied as they lie in memory, run, and written down."""

import struct

import torch
from torch.utils._pytree import tree_flatten, tree_map

from double import in_double, spreads, wide

TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
         torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
         torch.uint16, torch.uint32, torch.uint64]
FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d]
LARGEST_STORAGE = 1 << 14
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, ZeroDivisionError, OverflowError)


class Unwritable(Exception):
    """A call that the file cannot hold: another layout or type, too much memory."""


class Parameter:
    """One parameter of one of our schemas."""

    def __init__(self, text, keyword):
        text, _, default = text.partition("=")
        self.type, self.name = text.rsplit(" ", 1)
        self.keyword, self.default = keyword, default
        self.written = "!" in self.type
        bare = self.type.split("(")[0] + self.type.partition(")")[2] if "(" in self.type else self.type
        self.optional = bare.endswith("?")
        bare = bare.rstrip("?").replace("SymInt", "int")
        self.list, _, length = bare.partition("[")
        self.is_list = "[" in bare
        self.length = int(length.rstrip("]")) if length.rstrip("]") else None
        self.base = self.list.rstrip("?")


class Operator:
    """An operator that both sides have, by our schema."""

    def __init__(self, schema):
        self.schema = schema
        self.name, rest = schema.split("(", 1)
        arguments = rest.rsplit(") ->", 1)[0]
        before, star, after = (arguments.partition("*, ") if not arguments.startswith("*") else ("", "*", arguments[3:]))
        split = lambda text: [p for p in text.strip().rstrip(",").split(", ") if p]
        self.parameters = [Parameter(p, False) for p in split(before)] + [Parameter(p, True) for p in split(after)]
        base, _, overload = self.name.partition(".")
        packet = getattr(torch.ops.aten, base, None)
        self.torch = getattr(packet, overload or "default", None) if packet is not None else None
        tags = self.torch.tags if self.torch is not None else []
        random = torch.Tag.nondeterministic_seeded in tags or "empty" in base or "rand" in base
        self.has_values = not random

    def bind(self, args, kwargs):
        """Arguments in our order, with defaults filled in, or None where they do not fit."""
        theirs = self.torch._schema.arguments
        if [a.name for a in theirs] != [p.name for p in self.parameters] or len(args) > len(theirs):
            return None
        bound = {a.name: a.default_value for a in theirs}
        bound.update(zip((a.name for a in theirs), args))
        if any(name not in bound for name in kwargs):
            return None
        bound.update(kwargs)
        return [self.normal(p, bound[p.name]) for p in self.parameters]

    @staticmethod
    def normal(parameter, value):
        if parameter.is_list and parameter.base in ("int", "float") and isinstance(value, (int, float)):
            return [value] * (parameter.length or 1)
        return list(value) if isinstance(value, (tuple, torch.Size)) else value

    def run(self, values):
        positional = [v for p, v in zip(self.parameters, values) if not p.keyword]
        named = {p.name: v for p, v in zip(self.parameters, values) if p.keyword}
        return self.torch(*positional, **named)


def tensors_of(values):
    return [t for t in tree_flatten(values)[0] if isinstance(t, torch.Tensor)]


def copy(values):
    """The same arguments in memory of their own, with offsets, strides and what they share."""
    storages = {}

    def one(t):
        if not isinstance(t, torch.Tensor):
            return t
        plain = type(t) in (torch.Tensor, torch.nn.Parameter) and t.layout == torch.strided
        if not plain or t.dtype not in TYPES or t.device.type != "cpu":
            raise Unwritable(str(t.dtype))
        old = t.untyped_storage()
        if old.nbytes() > LARGEST_STORAGE:
            raise Unwritable("large")
        if old._cdata not in storages:
            storages[old._cdata] = old.clone()
        made = torch.empty(0, dtype=t.dtype)
        return made.set_(storages[old._cdata], t.storage_offset(), t.size(), t.stride())

    with torch.no_grad():
        return tree_map(one, values)


def exactly(run, *args):
    """What a call gives in 64 bits, or None where it has no result so."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return run(*args)
    except (*REFUSALS, MemoryError):
        return None
    finally:
        torch.set_default_dtype(usual)


def doubles(run, values, count):
    """What the call gives in 64 bits, and how far that moves when the arguments are rounded, for each of `count` results."""
    exact = exactly(run, in_double(values))
    if exact is None or len(exact) != count:
        return [(None, None)] * count
    return list(zip(exact, spreads(lambda wide: exactly(run, wide), values, exact)))


def computing_type(operator, values):
    """The type in which a call computes, where its result is converted to that of `out`."""
    inputs = [t.dtype for p, v in zip(operator.parameters, values) if not p.written for t in tensors_of([v])]
    numbers = [dtype for dtype in inputs if dtype.is_floating_point or dtype.is_complex]
    return min(numbers, key=lambda dtype: dtype.to_real().itemsize, default=torch.float32)


def bytes_of(storage):
    return torch.empty(0, dtype=torch.uint8).set_(storage).clone().numpy().tobytes()  # not itself: NumPy fixes its size


def signature(operator, values):
    """What tells calls apart that are worth running both."""
    shape = lambda t: (t.dtype, tuple(t.shape), t.stride()) if isinstance(t, torch.Tensor) else repr(t)
    return (operator.name, tuple(shape(leaf) for leaf in tree_flatten(values)[0]))


def logical_bytes(t):
    dense = torch.empty(t.numel(), dtype=t.dtype).copy_(t.detach().reshape(-1))
    return bytes_of(dense.untyped_storage())


class Writer:
    """One call in the form that `read.rs` reads."""

    def __init__(self):
        self.out = bytearray()

    def byte(self, value):
        self.out += struct.pack("<B", int(value))

    def int(self, value):
        self.out += struct.pack("<q", int(value))

    def float(self, value):
        self.out += struct.pack("<d", float(value))

    def bytes(self, value):
        self.int(len(value))
        self.out += value

    def string(self, value):
        self.bytes(value.encode())

    def list(self, values, one):
        self.int(len(values))
        for value in values:
            one(value)

    def dtype(self, dtype):
        if dtype not in TYPES:
            raise Unwritable(str(dtype))
        self.byte(TYPES.index(dtype))

    def tensor(self, t, storages):
        self.int(storages.index(t.untyped_storage()._cdata))
        self.list(t.shape, self.int)
        self.list(t.stride(), self.int)
        self.int(t.storage_offset())

    def scalar(self, value):
        if isinstance(value, bool):
            self.byte(2)
            self.byte(value)
        elif isinstance(value, int):
            if not -2**63 <= value < 2**63:
                raise Unwritable("a large int")
            self.byte(0)
            self.int(value)
        elif isinstance(value, float):
            self.byte(1)
            self.float(value)
        elif isinstance(value, complex):
            self.byte(3)
            self.float(value.real)
            self.float(value.imag)
        else:
            raise Unwritable(f"the number {value!r}")

    def value(self, parameter, value, storages):
        """An argument, by its parameter's type."""
        base = parameter.base
        if value is None:
            return self.byte(0)
        if base == "Tensor" and parameter.is_list:
            self.byte(3 if "?[" in parameter.type else 2)
            return self.list(value, lambda t: self.optional(parameter, t, storages))
        if base == "Tensor" and isinstance(value, torch.Tensor):
            self.byte(1)
            return self.tensor(value, storages)
        if base == "Tensor":
            self.byte(17)
            return self.scalar(value)
        codes = {"int": (8, self.int), "float": (9, self.float), "bool": (10, self.byte)}
        if parameter.is_list and base in codes and isinstance(value, (list, tuple)):
            code, one = codes[base]
            self.byte(code)
            return self.list(value, one)
        single = {"Scalar": (4, self.scalar), "int": (5, self.int), "float": (6, self.float), "bool": (7, self.byte),
                  "str": (11, self.string), "ScalarType": (12, self.dtype), "MemoryFormat": (15, lambda v: self.byte(FORMATS.index(v)))}
        if base in single and isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.memory_format)):
            code, one = single[base]
            self.byte(code)
            return one(value)
        if (base, value) == ("Layout", torch.strided) or (base == "Device" and torch.device(value).type == "cpu"):
            return self.byte(13 if base == "Layout" else 14)
        raise Unwritable(f"{parameter.type} {value!r}")

    def optional(self, parameter, t, storages):
        if "?[" in parameter.type:
            self.byte(t is not None)
        if t is not None:
            self.tensor(t, storages)

    def given(self, t, storages, double=(None, None), computed=None):
        """A tensor that PyTorch gave, beside its elements as contiguous tensors of 64 bits give them, how far those move when the arguments
        are rounded, and the type it was computed in, where known."""
        exact, spread = double
        if t.layout != torch.strided or t.device.type != "cpu" or t.numel() * t.element_size() > 1 << 20:
            raise Unwritable("a result of another kind")
        key = t.untyped_storage()._cdata
        self.int(storages.index(key) if key in storages else -1)
        self.dtype(t.dtype)
        self.list(t.shape, self.int)
        self.list(t.stride(), self.int)
        self.int(t.storage_offset())
        self.bytes(logical_bytes(t))
        is_real = t.is_floating_point() or t.is_complex()
        narrower = computed is not None and is_real and computed.to_real().itemsize < t.dtype.to_real().itemsize
        self.dtype(computed if narrower else t.dtype)
        is_exact = isinstance(exact, torch.Tensor) and exact.shape == t.shape and exact.dtype == wide(t.dtype)
        # PyTorch writes some results that are not contiguous in the wrong order.
        is_exact = is_exact and (narrower or exact.dtype != t.dtype or not t.is_contiguous())
        self.bytes(logical_bytes(exact) if is_exact else b"")
        moves = is_real and isinstance(spread, torch.Tensor) and spread.shape == t.shape and bool(spread.any())
        self.bytes(logical_bytes(spread) if moves else b"")

    def outcome(self, value, storages, double=(None, None)):
        if value is None:
            self.byte(0)
        elif isinstance(value, torch.Tensor):
            self.byte(1)
            self.given(value, storages, double)
        elif isinstance(value, (list, tuple)):
            exact, _ = double
            exact = exact if isinstance(exact, (list, tuple)) and len(exact) == len(value) else [None] * len(value)
            self.byte(2)
            self.list(list(zip(value, exact)), lambda pair: self.given(pair[0], storages, (pair[1], None)))
        elif isinstance(value, (bool, int, float)):
            self.byte(3)
            self.float(value)
        else:
            raise Unwritable(f"the result {value!r}")


def words(values):
    """Arguments in a line."""
    def one(v):
        if isinstance(v, torch.Tensor):
            dense = v.is_contiguous()
            strides = "" if dense and not v.storage_offset() else f" {list(v.stride())}+{v.storage_offset()}"
            held = f"={v.flatten().tolist()}" if v.numel() <= 4 else ""
            return f"{str(v.dtype)[6:]}{list(v.shape)}{strides}{held}"
        return "[" + ", ".join(map(one, v)) + "]" if isinstance(v, (list, tuple)) else str(v)
    return ", ".join(map(one, values))[:400]


def put_call(w, operator, values, origin, may_refuse=False):
    """The call itself: returns the keys and the bytes of the storages behind its arguments."""
    storages, kinds, before = [], [], []
    for t in tensors_of(values):
        key = t.untyped_storage()._cdata
        if key not in storages:
            storages.append(key)
            kinds.append(t.dtype)
            before.append(bytes_of(t.untyped_storage()))
        elif kinds[storages.index(key)] != t.dtype:
            raise Unwritable("two types in one storage")
    for text in (operator.name, origin, words(values)):
        w.string(text)
    w.byte(may_refuse)
    w.byte(operator.has_values)
    w.int(len(before))
    for kind, memory in zip(kinds, before):
        w.dtype(kind)
        w.bytes(memory[:len(memory) // kind.itemsize * kind.itemsize])
    w.int(len(values))
    for parameter, value in zip(operator.parameters, values):
        w.value(parameter, value, storages)
    return storages, before


def written(operator, values, origin, may_refuse=False, expect_from=None):
    """Runs a call and returns its bytes. With `expect_from`, the results are those of other, independent arguments."""
    values = copy(values)
    w = Writer()
    storages, before = put_call(w, operator, values, origin, may_refuse)
    expect(w, operator, values, storages, before, expect_from)
    return bytes(w.out)


def written_gradients(operator, values):
    """Differentiates a call with respect to its floating point tensors, and returns its bytes, or None without derivatives."""
    values = copy(values)
    w = Writer()
    storages, _ = put_call(w, operator, values, "gradients")
    leaves = [i for i, t in enumerate(tensors_of(values)) if t.dtype in (torch.float32, torch.float64)]
    if not leaves or not operator.has_values or any(p.written for p in operator.parameters):
        return None
    seeds, grads = gradients(operator, values, leaves)
    if not seeds:
        return None
    double = doubles(lambda wide: gradients(operator, wide, leaves)[1], values, len(grads))
    w.byte(2)
    w.list(seeds, lambda t: w.given(t, []))
    w.list(list(zip(grads, double)), lambda pair: w.outcome(pair[0], [], pair[1]))
    return bytes(w.out)


def gradients(operator, values, leaves):
    """The gradients of the tensors at some positions, and what the results were multiplied by: nothing where none has a history."""
    leaves = [tensors_of(values)[i].requires_grad_(True) for i in leaves]
    outputs = [t for t in tensors_of(operator.run(values)) if t.requires_grad]
    if not outputs:
        return [], []
    seeds = [torch.linspace(-1, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in outputs]
    grads = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
    return seeds, [g if g is None else g.detach() for g in grads]


def everything(operator, values, changed):
    """The arguments that a call writes, and its results."""
    results = operator.run(values)
    if not isinstance(results, tuple):
        results = () if results is None else (results,)
    return [values[i] for i in changed] + list(results)


def expect(w, operator, values, storages, before, independent):
    """What the call gives."""
    apart = copy(independent) if independent is not None else values
    kept = tensors_of(values)  # storages stay alive, so that their identity means something
    changed = [i for i, p in enumerate(operator.parameters) if p.written and isinstance(apart[i], torch.Tensor)]
    original = copy(apart) if changed else apart
    with torch.no_grad():
        try:
            made = everything(operator, apart, changed)
        except REFUSALS as error:
            words = str(error).split("\n")[0][:200]
            if words.startswith("aten::") and "Expected a value of type" in words:
                raise Unwritable("no call of the operator: PyTorch refuses to pass the arguments to it") from None
            w.byte(0)
            return w.string(words)
        run = lambda wide: everything(operator, wide, changed)
        double = doubles(run, original, len(made)) if operator.has_values else [(None, None)] * len(made)
    w.byte(1)
    if independent is not None:
        for i in changed:
            values[i].copy_(apart[i])
    put_memory(w, operator, kept, storages, before)
    w.int(len(changed))
    for i, both in zip(changed, double):
        w.int(i)
        is_out = operator.parameters[i].keyword
        w.given(values[i], storages, both, computing_type(operator, values) if is_out else None)
    results, double = made[len(changed):], double[len(changed):]
    if changed and all(any(r is apart[i] for i in changed) for r in results if isinstance(r, torch.Tensor)):
        results = []
    w.list(list(zip(results, double)), lambda pair: w.outcome(pair[0], storages, pair[1]))


def put_memory(w, operator, tensors, storages, before):
    """The bytes behind the arguments after the call."""
    memories = {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors}
    w.int(len(storages))
    for key, old in zip(storages, before):
        now = bytes_of(memories[key]) if key in memories else b""
        same = len(now) == len(old) and operator.has_values
        w.byte(same)
        if same:
            w.bytes(now)
