"""Times calls of operators in one of two libraries, Flambeau or PyTorch, on request: a process for each side.

A request is a line of JSON: a row that `main.rs` printed, and which of its calls is prepared, with how many elements, in which type and
layout, with or without gradients; or an empty object, upon which the prepared call is timed. The answer is a line of JSON: sums of the
result, by which the sides are compared, or the median and the minimum time of a call; or why there is none.
"""

import argparse
import gc
import importlib
import json
import statistics
import sys
import time

import numpy as np

GOLDEN = 0.6180339887498949
# A call with larger tensors is left out.
LARGEST = 1 << 25
# A call that takes longer than so many measurements is left out.
SLOWEST = 50
# Calls of so many elements are tried with fewer first, so that none takes minutes.
TRIED_BEFORE, TRIAL = 1 << 16, 64


class LeftOut(Exception):
    """Why a call is not timed."""


class Library:
    """The functions of one side, by the names of operators."""

    def __init__(self, name):
        self.module = importlib.import_module(name)
        self.name = name
        bindings = self.module._flambeau if name == "flambeau" else self.module._C
        spaces = {"linalg": "_linalg", "fft": "_fft", "special": "_special"}
        self.spaces = {prefix: getattr(bindings, space, None) for prefix, space in spaces.items()}
        self.nn = getattr(bindings, "_nn", None)

    def function(self, operator):
        """The binding of an operator, without a Python function around it where there is one."""
        base = operator.partition(".")[0]
        prefix = base.partition("_")[0]
        for space, name in ((self.module, base), (self.nn, base), (self.spaces.get(prefix), base)):
            found = getattr(space, name, None)
            if found is not None:
                return found
        method = getattr(self.module.Tensor, base, None)
        if method is None or not callable(method):
            raise LeftOut("no function of this name")
        return method

    def dtype(self, name):
        found = getattr(self.module, name, None)
        if found is None:
            raise LeftOut(f"no type {name}")
        return found

    def tensor(self, values, dtype, layout):
        if dtype == "bfloat16":
            made = self.module.from_numpy(values.astype(np.float32, copy=False)).to(self.dtype(dtype))
        else:
            made = self.module.from_numpy(values.astype(dtype, copy=False))
        if layout == "transposed" and made.dim() > 1:
            return made.transpose(-1, -2).contiguous().transpose(-1, -2)
        if layout == "channels last" and made.dim() == 4:
            return made.contiguous(memory_format=self.module.channels_last)
        if layout == "sliced" and made.dim() > 0:
            return self.module.stack([made, made], -1)[..., 1]
        return made


def repeated(values, dimension, factor, varies):
    """The copies of an array along a dimension; where they may vary, each is scaled by another factor a little below 1."""
    scales = 1 - (np.arange(factor) * GOLDEN % 1) / 8 if varies else np.ones(factor)
    sizes = values.shape
    scales = scales.astype(values.dtype).reshape([factor] + [1] * (len(sizes) - dimension))
    copies = np.expand_dims(values, dimension) * scales
    return copies.reshape([*sizes[:dimension], factor * sizes[dimension], *sizes[dimension + 1 :]])


# The types in which numbers are computed that become elements of a type; others in float64.
COMPUTED = {"float32": np.float32, "bfloat16": np.float32}


def enlarged(call, elements, dtype):
    """The arguments of a call so large that its largest tensor has about so many elements, for tensors of a type."""
    once, twice = call["elements"]
    power = max(np.log2(twice / once), 0.1)
    factor = max(1, int(round((elements / once) ** (1 / power))))
    arguments = [dict(a) if isinstance(a, dict) else a for a in call["arguments"]]
    for argument in arguments:
        for tensor in tensors_of(argument):
            computed = COMPUTED.get(dtype if tensor["dtype"] == "own" else tensor["dtype"], np.float64)
            tensor["values"] = np.array(tensor["data"], dtype=computed).reshape(tensor["sizes"])
    for kind, at, *rest in call["extents"]:
        if kind == "dimension":
            tensor = list(tensors_of(arguments[at]))[rest[0]]
            if tensor["values"].size * factor > LARGEST:
                raise LeftOut("operands too large")
            tensor["values"] = repeated(tensor["values"], rest[1], factor, tensor["dtype"] == "own")
        elif kind == "entry":
            arguments[at] = [n * factor if i == rest[0] else n for i, n in enumerate(arguments[at])]
        else:
            arguments[at] *= factor
    return arguments


def tensors_of(argument):
    if isinstance(argument, dict) and "sizes" in argument:
        yield argument
    elif isinstance(argument, dict):
        yield from argument.get("tensors", [])


def made(library, argument, case, leaves):
    """An argument as the library takes it; tensors that gradients are taken of are added to `leaves`."""

    def tensor(description):
        own = description["dtype"] == "own"
        result = library.tensor(description["values"], case["dtype"] if own else description["dtype"], case["layout"] if own else "dense")
        if case["gradient"] and own and description["differentiable"]:
            result = result.detach().requires_grad_()
            leaves.append(result)
        return result

    if not isinstance(argument, dict):
        return argument
    if "unsupported" in argument:
        raise LeftOut(f"an argument {argument['unsupported']}")
    if "tensors" in argument:
        return [tensor(description) for description in argument["tensors"]]
    if "sizes" in argument:
        return tensor(argument)
    return library.dtype(case["dtype"] if argument["dtype"] == "own" else argument["dtype"])


def keywords(schema):
    """The names of a schema's parameters that are given by keyword, with their indices."""
    parameters = schema.partition("(")[2].rpartition(") ->")[0].split(", ")
    star = parameters.index("*") if "*" in parameters else len(parameters)
    names = [parameter.partition("=")[0].rpartition(" ")[2] for parameter in parameters]
    return {at - 1: names[at] for at in range(star + 1, len(names))}


def prepared(library, row, case):
    """The call to time, without arguments."""
    leaves = []
    enlarged_arguments = enlarged(row["calls"][case["call"]], case["elements"], case["dtype"])
    arguments = [made(library, a, case, leaves) for a in enlarged_arguments]
    named = keywords(row["schema"])
    positional = [value for at, value in enumerate(arguments) if at not in named]
    by_name = {name: arguments[at] for at, name in named.items() if at < len(arguments) and arguments[at] is not None}
    function = library.function(row["name"])
    if not case["gradient"]:
        return lambda: function(*positional, **by_name)
    return with_gradients(library, lambda: function(*positional, **by_name), leaves)


def with_gradients(library, forward, leaves):
    """A call and its gradients with respect to the leaves."""
    result = first_tensor(library, forward())
    if not leaves or result is None or not result.requires_grad:
        raise LeftOut("no gradient")
    ones = library.module.ones_like(result)

    def call():
        output = first_tensor(library, forward())
        output.backward(ones)
        gradient = leaves[0].grad
        for leaf in leaves:
            leaf.grad = None
        return gradient

    return call


def first_tensor(library, result):
    if isinstance(result, library.module.Tensor):
        return result
    if isinstance(result, (tuple, list)) and result:
        return first_tensor(library, result[0])
    return None


def check(library, result):
    """The sum of a result and of its magnitudes, by which the sides are compared."""
    tensor = first_tensor(library, result)
    if tensor is None or tensor.is_complex():
        return [None, None]
    tensor = tensor.detach()
    if tensor.dtype not in (library.module.float32, library.module.float64):
        tensor = tensor.to(library.module.float64)
    values = tensor.numpy()
    sums = [float(v.sum(dtype=np.float64)) for v in (values, np.abs(values))]
    return [value if np.isfinite(value) else None for value in sums]


def seconds_of(call):
    """The time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def timed(call, seconds):
    """The median and the minimum time of a call, in nanoseconds: batches of a tenth of the time each, or one call that takes longer."""
    once = seconds_of(call)
    if once > SLOWEST * seconds:
        raise LeftOut("a call takes seconds")
    if once > seconds:
        return once * 1e9, once * 1e9
    number = max(1, int(seconds / 10 / max(once, 1e-7)))
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter_ns()
        for _ in range(number):
            call()
        times.append((time.perf_counter_ns() - start) / number)
        number = max(1, int(seconds / 10 / max(min(times) * 1e-9, 1e-7)))
    return statistics.median(times), min(times)


class Side:
    """One library, and the call that it prepared last."""

    def __init__(self, library, seconds):
        self.library = library
        self.seconds = seconds
        self.call = None

    def prepare(self, request):
        self.call = None
        gc.collect()
        row, case = request["row"], request["case"]
        if case["elements"] >= TRIED_BEFORE:
            trial = prepared(self.library, row, {**case, "elements": case["elements"] // TRIAL})
            # The first call may prepare something, or be interrupted.
            if min(seconds_of(trial), seconds_of(trial)) * TRIAL > SLOWEST * self.seconds:
                raise LeftOut("a call takes seconds")
        call = prepared(self.library, row, case)
        start = time.perf_counter()
        result = call()
        if time.perf_counter() - start > 2 * SLOWEST * self.seconds:
            raise LeftOut("a call takes seconds")
        self.call = call
        return {"check": check(self.library, result) if request["row"]["exact"] else [None, None]}

    def time(self):
        median, minimum = timed(self.call, self.seconds)
        return {"median_ns": median, "min_ns": minimum}

    def answer(self, request):
        try:
            return self.prepare(request) if "row" in request else self.time()
        except LeftOut as reason:
            return {"left_out": str(reason)}
        except Exception as error:  # A side that refuses the call is a reason, too.
            return {"left_out": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]}


def number_or_object(read):
    """A number that JSON has none for, such as NaN, or what was read."""
    return float(read["number"]) if read.keys() == {"number"} else read


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=["flambeau", "torch"], required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--serve", action="store_true", help="answer requests from the standard input")
    options = parser.parse_args()
    library = Library(options.library)
    library.module.set_num_threads(options.threads)
    side = Side(library, options.seconds)
    gc.disable()
    gc.freeze()  # A collection need not search what importing a library left.
    for line in sys.stdin:
        request = json.loads(line, object_hook=number_or_object) if line.strip() else None
        print(json.dumps(None if request is None else side.answer(request)), flush=True)


if __name__ == "__main__":
    main()
