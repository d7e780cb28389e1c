"""The calls that PyTorch's operator database makes, and those that its composites and derivatives make below it."""

import itertools
import signal
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

from calls import REFUSALS, Unwritable, copy, signature, tensors_of

DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.int32, torch.uint8,
          torch.complex64, torch.complex128]


# How long an entry may take, in time of the processor.
SECONDS = 20
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def as_operator(name, args, kwargs):
    """The operator that a function of `torch.nn.functional` stands for, and its arguments."""
    name = name.removeprefix("nn.functional.")
    if name == "batch_norm":
        def order(input, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
            return input, weight, bias, mean, var, training, momentum, eps, False
        return name, order(*args, **kwargs), {}
    kwargs = {k: REDUCTIONS.get(v, v) if k == "reduction" else v for k, v in kwargs.items()}
    names = {"cross_entropy": "cross_entropy_loss", "nll_loss": "nll_loss_nd", "conv_transpose2d": "conv_transpose2d"}
    return names.get(name, name), args, kwargs


class Recorder(TorchDispatchMode):
    """Keeps the calls of operators that we have, as they were before they ran."""

    def __init__(self, operators, each):
        super().__init__()
        self.operators, self.each = operators, each
        self.calls, self.seen = {}, set()

    def keep(self, operator, values, origin):
        kind = next((t.dtype for t in tensors_of(values)), None)
        calls = self.calls.setdefault((operator.name, kind), [])
        if values is None or len(calls) >= self.each:
            return
        try:
            key = signature(operator, values)
            if key not in self.seen:
                calls.append((operator, copy(values), origin))
                self.seen.add(key)
        except Unwritable:
            pass

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::")
        overload = function._schema.overload_name
        operator = self.operators.get(f"{name}.{overload}" if overload else name)
        if operator is not None:
            values = operator.bind(args, kwargs or {})
            if values is not None:
                self.keep(operator, values, "op_db")
        return function(*args, **(kwargs or {}))

    def resolve(self, name, args, kwargs, origin):
        """A call of the operator by its own name, which a composite takes apart before the mode sees it."""
        try:
            name, args, kwargs = as_operator(name, args, kwargs)
            overload = torch._C._jit_resolve_packet(f"aten::{name}", *args, **kwargs)
        except Exception:  # of many kinds, all meaning that no overload takes the arguments
            return
        operator = self.operators.get(name if overload in ("", "default") else f"{name}.{overload}")
        values = operator and operator.bind(args, kwargs)
        if values is not None:
            self.keep(operator, values, origin)


def reach(info, operators):
    """In which types the database's entry is worth running: all for our own operators, one for what may be made of them."""
    bases = {name.partition(".")[0] for name in operators}
    name = info.aten_name or info.name
    if name in bases or info.name.removeprefix("nn.functional.").replace("cross_entropy", "cross_entropy_loss") in bases:
        return DTYPES
    left_out = ("sparse", "fft", "jiterator", "special.", "_refs", "linalg.", "masked.", "signal", "ops.", "segment")
    return [] if any(word in info.name for word in left_out) else DTYPES[:1]


def samples_of(info, dtype, count, grad):
    try:
        return list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=grad), count))
    except Exception:  # samples that need what this build lacks
        return []


def backward(results):
    outputs = [t for t in tensors_of(results) if t.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.linspace(-1, 1, t.numel(), dtype=t.dtype).reshape(t.shape) for t in outputs])


def run_samples(recorder, info, dtype, count):
    grad = dtype in (torch.float32, torch.float64) and info.supports_autograd
    for sample in samples_of(info, dtype, count, grad):
        args = (sample.input, *sample.args)
        plain = torch.utils._pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, (args, sample.kwargs))
        recorder.resolve(info.aten_name or info.name, plain[0], plain[1], "op_db")
        try:
            with recorder:
                backward(info.op(*args, **sample.kwargs))
        except Exception:  # an operator that refuses its own samples has nothing to tell
            continue


def run_errors(recorder, info):
    if info.error_inputs_func is None:
        return
    try:
        errors = list(info.error_inputs("cpu"))
    except Exception:
        return
    for error in errors:
        sample = error.sample_input
        name = info.aten_name or info.name
        recorder.resolve(name, (sample.input, *sample.args), sample.kwargs, "errors")
        try:
            with recorder:
                info.op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue


class TooLong(BaseException):
    pass


def alarm(*_):
    raise TooLong


def record(operators, count, each, only=None):
    """Calls of `operators`, at most `each` for an operator and a type."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, alarm)
    recorder = Recorder(operators, each)
    names = {name.partition(".")[0].rstrip("_") for name in (only or [])}
    for info in op_db:
        if names and not names & {info.name.split(".")[-1], info.aten_name}:
            continue
        dtypes = reach(info, operators)
        torch.manual_seed(0)
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            for dtype in dtypes:
                if dtype in info.dtypes:
                    run_samples(recorder, info, dtype, count if len(dtypes) > 1 else count // 4)
            if dtypes:
                run_errors(recorder, info)
        except TooLong:
            pass
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return [call for calls in recorder.calls.values() for call in calls]
