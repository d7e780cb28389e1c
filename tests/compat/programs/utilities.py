"""Names around the library: checkpoints of both forms, schedules of a profiler, benchmarks, pipes, file checks, archives."""

import io
import json
import warnings

import numpy
import torch
from torch.utils import benchmark, checkpoint
from torch.utils.data import IterDataPipe, functional_datapipe
from torch.utils.data.datapipes.iter import Batcher, IterableWrapper

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
FOUND = {}


def ramp(*sizes):
    count = 1
    for size in sizes:
        count *= size
    return torch.cos(torch.arange(count, dtype=torch.float64) * 1.3 + 0.2).reshape(sizes)


def refused(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "accepted"


calls = []


def part(a, b):
    calls.append(1)
    return (a * b).sin() @ b, a.exp()


for form in (True, False):
    a, b = ramp(3, 3).requires_grad_(), (ramp(3, 3) + 1).requires_grad_()
    first, second = checkpoint.checkpoint(part, a * 2, b, use_reentrant=form)
    (first.sum() + (second * ramp(3, 3)).sum()).backward()
    FOUND[f"checkpoint {form}"] = [a.grad.tolist(), b.grad.tolist(), len(calls)]
FOUND["detached"] = [x.requires_grad for x in checkpoint.detach_variable((ramp(2).requires_grad_(), ramp(2)))]
FOUND["policies"] = [policy.name for policy in checkpoint.CheckpointPolicy]

for options in ({"wait": 1, "warmup": 1, "active": 2}, {"wait": 2, "warmup": 0, "active": 1, "repeat": 2, "skip_first": 3}):
    action = torch.profiler.schedule(**options)
    FOUND[f"schedule {options}"] = [action(step).name for step in range(14)]

spec = benchmark.TaskSpec("x + y", "pass", label="sum", sub_label="small", description="here")
many = benchmark.Measurement(10, [1.0e-3, 1.1e-3, 1.2e-3, 1.3e-3, 2.0e-3], spec)
FOUND["measurement"] = [many.median, many.mean, many.iqr, many.title, many.as_row_name, many.times, len(benchmark.Measurement.merge([many, many]))]
FOUND["units"] = [benchmark.select_unit(3e-5), benchmark.unit_to_english("us"), benchmark.trim_sigfig(123.456, 2), benchmark.ordered_unique([3, 1, 3])]
timed = benchmark.Timer("x.add(1)", globals={"x": ramp(3)}).timeit(20)
FOUND["timer"] = [timed.number_per_run, timed.median > 0, timed.task_spec.stmt, refused(lambda: benchmark.Timer(3))]
parameter = benchmark.FuzzedParameter("k", 4, 32, distribution="uniform")
FOUND["fuzzer"] = [parameter.sample(numpy.random.RandomState(1)) for _ in range(2)]
tensors, _, params = next(iter(benchmark.Fuzzer([parameter], [benchmark.FuzzedTensor("x", size=("k", 3))], seed=4).take(1)))
FOUND["fuzzed"] = [list(tensors["x"].shape) == [params["k"], 3], 4 <= params["k"] <= 32]


@functional_datapipe("doubled_for_a_test")
class Doubled(IterDataPipe):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        for item in self.source:
            yield item * 2


pipe = IterableWrapper(range(5)).doubled_for_a_test()
FOUND["pipes"] = [list(pipe), list(pipe.batch(2)), list(Batcher(pipe, 2, drop_last=True)), list(pipe.map(str).filter(lambda s: s != "4")),
                  refused(lambda: pipe.nothing_of_the_kind()), list(pipe.zip(IterableWrapper("abcde")))]

check = torch.testing.FileCheck
text = "a = 1\nb = 2\nb = 2\nc = 3\n"
FOUND["file check"] = [
    refused(lambda: check().check("a").check_next("b").check_not("x").check("c = 3").run(text)), refused(lambda: check().check("c").check("a").run(text)),
    refused(lambda: check().check_count("b = 2", 2, exactly=True).run(text)), refused(lambda: check().check_count("b = 2", 3).run(text)),
    refused(lambda: check().check("a").check_same("= 1").check_not("b").check("c").run(text)), refused(lambda: check().check_dag("c").check_dag("a").run(text)),
]

file = io.BytesIO()
torch.save({"w": ramp(3)}, file)
file.seek(0)
reader = torch.PyTorchFileReader(file)
FOUND["reader"] = [reader.has_record("data.pkl"), reader.has_record("none"), len(reader.get_record("data/0")), "version" in reader.get_all_records()]
FOUND["serialization"] = [torch.serialization.get_crc32_options(), torch.serialization.location_tag(ramp(2).untyped_storage()), torch.serialization.LoadEndianness.BIG.value]

from torch.distributions import GeneralizedPareto

pareto = GeneralizedPareto(torch.tensor(0.5), torch.tensor(2.0), torch.tensor([0.0, 0.3, -0.4, 0.7]))
value = torch.tensor(1.2)
FOUND["pareto"] = [x.tolist() for x in (pareto.log_prob(value), pareto.cdf(value), pareto.icdf(torch.tensor(0.3)), pareto.mean, pareto.entropy(), pareto.log_cdf(value), pareto.mode)]
FOUND["compiler"] = [torch.compiler.get_default_backend(), torch.compiler.wrap_numpy(lambda a: numpy.cumsum(a))(ramp(3)).tolist(), torch.compiler.save_cache_artifacts() is None]
print(json.dumps(FOUND))
