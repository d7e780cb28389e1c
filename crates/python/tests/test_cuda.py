"""`flambeau.cuda`, each test in a process of its own: without a driver, and on the stand-in for one where that was built."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[3] / "target"))
STAND_IN = TARGET / "debug" / "libflambeau_cuda_standin.so"
NVRTC = TARGET / "cuda-tools" / "nvidia" / "cu13" / "lib"


def run(program: str, **variables: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **variables}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


WITHOUT = """
import flambeau as fl
assert not fl.cuda.is_available() and fl.cuda.device_count() == 0 and not fl.cuda.is_initialized()
assert fl.cuda.memory_allocated() == fl.cuda.max_memory_allocated() == fl.cuda.memory_reserved() == 0 and fl.cuda.memory_stats() == {}
fl.cuda.empty_cache()
fl.cuda.reset_peak_memory_stats()
fl.cuda.manual_seed(3)
assert fl.initial_seed() == 3
calls = [
    fl.cuda.init, fl.cuda.current_device, fl.cuda.synchronize, fl.cuda.mem_get_info, fl.cuda.get_device_properties,
    lambda: fl.ones(2, device="cuda"), lambda: fl.ones(2).cuda(), lambda: fl.nn.Linear(2, 3).cuda(), lambda: fl.cuda.set_device(0),
]
for call in calls:
    try:
        call()
    except RuntimeError as error:
        assert "no driver is installed" in str(error), error
    else:
        raise AssertionError(call)
try:
    fl.cuda.synchronize("cpu")
except ValueError as error:
    assert "Expected a cuda device" in str(error)
assert fl.ones(2).sum().item() == 2
"""


def test_without_a_driver_there_is_no_device_and_errors_say_why():
    run(WITHOUT, FLAMBEAU_CUDA_DRIVER="libmissing.so.1")


ON_DEVICE = """
import flambeau as fl
from flambeau import nn
assert fl.cuda.is_available() and fl.cuda.device_count() == 2 and fl.cuda.current_device() == 0
assert fl.cuda.get_device_name() == "Stand-in (no GPU)" and fl.cuda.get_device_capability(1) == (9, 0)
free, total = fl.cuda.mem_get_info()
assert 0 < free <= total == fl.cuda.get_device_properties("cuda:0").total_memory
x = fl.arange(6.0, device="cuda").reshape(2, 3)
assert x.is_cuda and x.device == fl.device("cuda:0")
used = fl.cuda.memory_allocated()
assert used > 0 and fl.cuda.max_memory_allocated() >= used and fl.cuda.memory_reserved() >= used
assert abs((x @ x.t()).exp().log().sum().item() - (5 + 14 + 14 + 50)) < 1e-3
model = nn.Linear(3, 2).cuda()
loss = model(x).square().mean()
loss.backward()
assert model.weight.grad.device == x.device
here = nn.Linear(3, 2)
here.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
assert (here(x.cpu()).square().mean() - loss.cpu()).abs().item() < 1e-5
with fl.cuda.device(1):
    assert fl.cuda.current_device() == 1 and fl.ones(2, device="cuda").device.index == 1
assert fl.cuda.current_device() == 0
fl.cuda.synchronize()
del x, model, loss
fl.cuda.empty_cache()
fl.cuda.reset_peak_memory_stats()
assert fl.cuda.memory_allocated() == fl.cuda.max_memory_allocated() == fl.cuda.memory_reserved() == 0
"""


ON_STREAMS = """
import flambeau as fl
first, second = fl.cuda.Stream(), fl.cuda.Stream()
assert first != second and first == fl.cuda.Stream(stream_id=first.stream_id) and hash(first) != hash(second)
assert fl.cuda.current_stream() == fl.cuda.default_stream() and first.device == fl.device("cuda:0") and first.cuda_stream != 0
start, end = fl.cuda.Event(enable_timing=True), fl.cuda.Event(enable_timing=True)
x = fl.arange(100.0, device="cuda")
with fl.cuda.stream(first):
    assert fl.cuda.current_stream() == first
    start.record()
    y = x * 2
    with fl.cuda.stream(second):
        z = (y + x).cumsum(0)
        second.record_event(end)
    with fl.cuda.stream(None):
        assert fl.cuda.current_stream() == first
assert fl.cuda.current_stream() == fl.cuda.default_stream()
z.record_stream(second)
first.wait_stream(second)
end.wait()
end.synchronize()
assert end.query() and start.elapsed_time(end) >= 0
assert z[-1].item() == 3 * 4950
first.synchronize()
second.synchronize()
assert first.query() and second.query()
for call in (lambda: fl.cuda.Event().elapsed_time(end), lambda: fl.cuda.Event(interprocess=True), lambda: fl.ones(2).record_stream(first)):
    try:
        call()
    except RuntimeError as error:
        assert str(error)
    else:
        raise AssertionError(call)
assert "cuda:0" in repr(first)
"""


PINNED = """
import flambeau as fl
from flambeau.utils.data import DataLoader, TensorDataset
x = fl.arange(1000.0)
pinned = x.pin_memory()
assert pinned.is_pinned() and not x.is_pinned() and (pinned == x).all() and pinned.pin_memory().data_ptr() == pinned.data_ptr()
there = pinned.to("cuda", non_blocking=True)
del pinned
other = fl.zeros(1000).pin_memory()
assert other.is_pinned() and (there.cpu() == x).all()
for images, classes in DataLoader(TensorDataset(fl.rand(4, 3), fl.arange(4)), batch_size=2, pin_memory=True):
    assert images.is_pinned() and classes.is_pinned()
    assert (images.to("cuda", non_blocking=True).cpu() == images).all()
try:
    there.pin_memory()
except RuntimeError as error:
    assert "cannot pin" in str(error)
else:
    raise AssertionError
"""


GRAPHS = """
import threading
import flambeau as fl
from flambeau import nn


def trained(launched, steps=20):
    fl.manual_seed(7)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()
    optimizer = fl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = fl.zeros(5, 4, device="cuda"), fl.zeros(5, 2, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def load(number):
        x.copy_((fl.arange(20.0) * 0.3 + number).sin().reshape(5, 4))
        y.copy_((fl.arange(10.0) * 0.7 - number).cos().reshape(5, 2))

    load(0)
    step()
    graph = fl.cuda.CUDAGraph()
    if launched:
        with fl.cuda.graph(graph):
            assert fl.cuda.is_current_stream_capturing()
            captured = step()
        assert not fl.cuda.is_current_stream_capturing()
    losses = []
    for number in range(1, steps):
        load(number)
        if launched:
            graph.replay()
        losses.append((captured if launched else step()).item())
    return losses, [p.detach().cpu() for p in model.parameters()]


(losses, parameters), (other_losses, other_parameters) = trained(False), trained(True)
assert losses == other_losses and losses[0] != losses[-1]
assert all(fl.equal(a, b) for a, b in zip(parameters, other_parameters))

x = fl.arange(6.0, device="cuda")
graph = fl.cuda.CUDAGraph()
calls = {
    "copy_": lambda: x.sum().item(),
    "copy_: cuda": lambda: x.cpu(),
    "normal_": lambda: fl.randn(3, device="cuda"),
    "bernoulli_": lambda: nn.functional.dropout(x),
    "pin_memory": lambda: fl.ones(2).pin_memory(),
    "wait for the device": fl.cuda.synchronize,
    "recording of an event": lambda: fl.cuda.Event().record(),
    "capture_begin": lambda: fl.cuda.CUDAGraph().capture_begin(),
}
side = fl.cuda.Stream()
with fl.cuda.graph(graph, stream=side):
    assert fl.cuda.current_stream() == side
    for name, call in calls.items():
        try:
            call()
        except RuntimeError as error:
            assert name in str(error), (name, error)
        else:
            raise AssertionError(name)
    y = x * 2
x += 1
graph.replay()
assert y.tolist() == [2, 4, 6, 8, 10, 12]
assert fl.cuda.current_stream() == fl.cuda.default_stream()
second = fl.cuda.CUDAGraph()
with fl.cuda.graph(second, pool=graph.pool()):
    z = y + x
second.replay()
assert z.tolist() == [3, 6, 9, 12, 15, 18]


class Stop(Exception):
    pass


third = fl.cuda.CUDAGraph()
try:
    with fl.cuda.graph(third):
        x * 3
        raise Stop
except Stop:
    pass
assert not fl.cuda.is_current_stream_capturing()
for call in (third.replay, third.capture_end, third.pool, graph.capture_begin, lambda: fl.cuda.CUDAGraph(keep_graph=True)):
    try:
        call()
    except RuntimeError as error:
        assert str(error)
    else:
        raise AssertionError(call)
try:
    third.capture_begin(capture_error_mode="none")
except ValueError as error:
    assert "'none'" in str(error)
third.capture_begin(pool=fl.cuda.graph_pool_handle(), capture_error_mode="relaxed")
outside = []
worker = threading.Thread(target=lambda: outside.append((x + 1).sum().item()))
worker.start()
worker.join()
w = x - 1
third.capture_end()
third.replay()
assert outside == [27] and w.tolist() == [0, 1, 2, 3, 4, 5]
for graph in (graph, second, third):
    graph.reset()
del graph, second, third, x, y, z, w
fl.cuda.empty_cache()
assert fl.cuda.memory_allocated() == fl.cuda.memory_reserved() == 0
"""


GRAPHED_CALLABLES = """
import flambeau as fl
from flambeau import nn


def gradients(graphed):
    fl.manual_seed(5)
    first, second = nn.Linear(3, 4).cuda(), nn.Sequential(nn.Linear(4, 4), nn.Tanh()).cuda()

    def last(pair):
        a, b = pair["a"], pair["b"]
        return (a * b).sum(), a - b

    scores = last
    if graphed:
        a, b = fl.zeros(2, 4, device="cuda", requires_grad=True), fl.zeros(2, 4, device="cuda", requires_grad=True)
        sample = fl.zeros(2, 3, device="cuda")
        hidden = fl.zeros(2, 4, device="cuda", requires_grad=True)
        made = fl.cuda.make_graphed_callables((first, second), ((sample,), (hidden,)))
        assert made == (first, second)
        scores = fl.cuda.make_graphed_callables(last, ({"a": a, "b": b},))
    results = []
    for number in range(4):
        x = (fl.arange(6.0, device="cuda") + number).sin().reshape(2, 3)
        first.zero_grad(set_to_none=True)
        second.zero_grad(set_to_none=True)
        hidden = first(x)
        total, difference = scores({"a": hidden, "b": second(hidden)})
        (total + difference.square().mean()).backward()
        results.append(total.item())
        results.extend(p.grad.tolist() for module in (first, second) for p in module.parameters())
    first.eval()
    assert first(fl.ones(7, 3, device="cuda")).shape == (7, 4)
    return results


assert gradients(False) == gradients(True)
try:
    fl.cuda.make_graphed_callables(lambda x: x, (3,))
except TypeError as error:
    assert "type int" in str(error)
"""


EXCHANGED = """
import flambeau as fl
x = fl.arange(6.0, device="cuda").reshape(2, 3)
assert x.__dlpack_device__() == (2, 0)
y = fl.from_dlpack(x)
assert y.device == x.device and y.data_ptr() == x.data_ptr() and y.shape == x.shape


class Other:
    \"\"\"A library that notes its options.\"\"\"
    def __dlpack_device__(self):
        return x.__dlpack_device__()
    def __dlpack__(self, **options):
        self.options = options
        return x.t().__dlpack__(**options)


side, other = fl.cuda.Stream(), Other()
with fl.cuda.stream(side):
    x *= 2
    z = fl.from_dlpack(other)
    assert other.options["stream"] == side.cuda_stream
z += 1
assert z.shape == (3, 2) and x.sum().item() == 2 * 15 + 6
for stream in (None, -1, 1, 2, fl.cuda.default_stream().cuda_stream):
    fl.from_dlpack(x.__dlpack__(stream=stream))
for options in ({"stream": 0}, {"dl_device": (1, 0)}):
    try:
        x.__dlpack__(**options)
    except BufferError as error:
        assert str(error)
    else:
        raise AssertionError(options)
try:
    fl.from_dlpack(x, device="cpu")
except BufferError as error:
    assert "is not implemented" in str(error)
else:
    raise AssertionError
"""


FOREIGN = """
import ctypes
import flambeau as fl
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p


class Described(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Described), ("manager", c_void_p), ("deleter", Deleter)]


x = fl.arange(6.0, device="cuda:1")
shape, freed = (c_int64 * 2)(2, 3), []
managed = Managed(Described(x.data_ptr(), 2, 1, 2, 2, 32, 1, shape, None, 0), None, Deleter(freed.append))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]
y = fl.from_dlpack(new(ctypes.addressof(managed), b"dltensor", None))
assert y.device == fl.device("cuda:1") and y.shape == (2, 3) and y.data_ptr() == x.data_ptr()
y += 1
assert x.sum().item() == 15 + 6 and not freed
del y
assert len(freed) == 1
"""


def on_stand_in(program: str, cache: Path, **variables: str) -> None:
    run(
        program,
        FLAMBEAU_CUDA_DRIVER=str(STAND_IN),
        FLAMBEAU_CUDA_PATH=str(NVRTC),
        FLAMBEAU_CACHE=str(cache),
        FLAMBEAU_CUDA_BLAS="own",
        CUDA_FORCE_PTX_JIT="1",
        **variables,
    )


needs_stand_in = pytest.mark.skipif(
    not (STAND_IN.exists() and NVRTC.exists()), reason="`cargo xtask cuda` builds the stand-in and fetches NVRTC"
)


@needs_stand_in
def test_a_device_from_python(tmp_path):
    on_stand_in(ON_DEVICE, tmp_path)


@needs_stand_in
def test_streams_and_events(tmp_path):
    on_stand_in(ON_STREAMS, tmp_path, FLAMBEAU_STANDIN_SEED="1")


@needs_stand_in
@pytest.mark.parametrize("seed", ["0", "1"])
def test_graphs(tmp_path, seed):
    on_stand_in(GRAPHS, tmp_path, FLAMBEAU_STANDIN_SEED=seed)


@needs_stand_in
def test_graphed_callables(tmp_path):
    on_stand_in(GRAPHED_CALLABLES, tmp_path)


# Each is the first or the second call of a function of the driver: the program gets an error, nothing is in use after it, and the next call works.
AFTER_A_FAILURE = """
import flambeau as fl

def work():
    x = fl.arange(6.0).to("cuda")
    with fl.cuda.stream(fl.cuda.Stream()):
        y = x * 2
    return (x + y).sum().item()

errors = 0
for attempt in range(3):
    try:
        assert work() == 45
    except RuntimeError as error:
        assert "cuda" in str(error), error
        errors += 1
assert errors <= 1, errors
fl.cuda.synchronize()
assert fl.cuda.memory_allocated() == 0
"""


@needs_stand_in
@pytest.mark.parametrize(
    "call",
    [
        "cuMemAlloc_v2:3",
        "cuStreamCreate:2",
        "cuEventCreate:3",
        "cuEventRecord:2",
        "cuStreamWaitEvent:1",
        "cuLaunchKernel:1",
        "cuLaunchKernel:2",
        "cuMemcpyHtoDAsync_v2:1",
        "cuMemcpyDtoHAsync_v2:1",
        "cuModuleLoadData:1",
    ],
)
def test_a_call_of_the_driver_fails(tmp_path, call):
    on_stand_in(AFTER_A_FAILURE, tmp_path, FLAMBEAU_STANDIN_FAIL=call)


def test_no_device_is_visible(tmp_path):
    if not STAND_IN.exists():
        pytest.skip("the stand-in was not built")
    program = """
import flambeau as fl
assert fl.cuda.device_count() == 0
try:
    fl.ones(2, device="cuda")
except RuntimeError as error:
    assert "the driver sees none" in str(error), error
else:
    raise AssertionError
"""
    run(program, FLAMBEAU_CUDA_DRIVER=str(STAND_IN), CUDA_VISIBLE_DEVICES="")


def test_without_nvrtc_an_error_says_how_to_install_it():
    if not STAND_IN.exists():
        pytest.skip("the stand-in was not built")
    program = """
import flambeau as fl
x = fl.arange(4.0).to("cuda")
for attempt in range(2):
    try:
        x + x
    except RuntimeError as error:
        assert "pip install nvidia-cuda-nvrtc" in str(error), error
    else:
        # The system may have one of its own.
        assert attempt == 0 or (x + x).sum().item() == 12
assert x.cpu().sum().item() == 6 and fl.ones(2).sum().item() == 2
"""
    unset = dict.fromkeys(["CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"], "")
    run(program, FLAMBEAU_CUDA_DRIVER=str(STAND_IN), FLAMBEAU_CUDA_PATH="/missing", CUDA_FORCE_PTX_JIT="1", **unset)


@needs_stand_in
def test_pinned_memory(tmp_path):
    on_stand_in(PINNED, tmp_path)


@needs_stand_in
def test_tensors_are_exchanged_with_other_libraries(tmp_path):
    on_stand_in(EXCHANGED, tmp_path)
    on_stand_in(FOREIGN, tmp_path)
