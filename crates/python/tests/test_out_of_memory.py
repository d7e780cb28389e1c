"""Memory that runs out: an exception, after which the process goes on with nothing changed.

Each case runs in a forked child whose address space is limited to what it uses and a little more, step by step less. There the
call either succeeds or raises MemoryError; then the limit goes, and the same call gives the same bits as ever.
"""

import copy
import ctypes
import gc
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn, optim

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")

N = 300_000
MiB = 1 << 20


def used():
    """The address space of the process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def limited(extra, call):
    """What `call` gives, or None if there was no memory for it within `extra` bytes more than are in use."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (max(used() + extra, 0), hard))
    try:
        return call()
    except MemoryError:
        return None
    finally:
        unlimited()


def unlimited():
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def release():
    """Has the allocator and the C library return their free memory, by a request that cannot be fulfilled."""
    try:
        fb.empty(1 << 58, dtype=fb.uint8)
    except MemoryError:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return
    raise AssertionError("there is memory for everything")


def bits(value):
    """What a result is, to the bit."""
    if isinstance(value, fb.Tensor):
        return (tuple(value.shape), str(value.dtype), value.detach().contiguous().numpy().tobytes())
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return value


CASES = {}


def case(name):
    def enter(make):
        CASES[name] = make
        return make

    return enter


def draw(*sizes, **options):
    return fb.rand(*sizes, **options)


def each(prefix, **calls):
    """Cases of functions of a vector."""
    for name, call in calls.items():
        CASES[prefix + name] = lambda call=call: (lambda x: lambda: call(x))(draw(N) - 0.5)


each(
    "",
    sort=lambda x: x.sort(),
    sort_descending=lambda x: x.sort(descending=True),
    sort_f64=lambda x: x.double().sort(),
    argsort=lambda x: x.argsort(),
    msort=lambda x: x.msort(),
    topk=lambda x: x.topk(N // 3),
    topk_few=lambda x: x.topk(1000),
    unique=lambda x: (x * 1000).round().unique(return_inverse=True, return_counts=True),
    unique_dim=lambda x: (x * 3).round().reshape(-1, 3).unique(dim=0),
    unique_consecutive=lambda x: (x > 0).unique_consecutive(return_counts=True),
    nonzero=lambda x: (x > 0).nonzero(),
    argwhere=lambda x: (x > 0).argwhere(),
    masked_select=lambda x: x.masked_select(x > 0),
    masked_fill=lambda x: x.masked_fill(x > 0, 1.0),
    masked_scatter=lambda x: x.masked_scatter(x > 0, x),
    kthvalue=lambda x: x.kthvalue(N // 2),
    median=lambda x: x.median(),
    median_dim=lambda x: x.reshape(3, -1).median(1),
    nanmedian=lambda x: x.nanmedian(),
    mode=lambda x: (x * 100).round().mode(),
    quantile=lambda x: x.quantile(0.3),
    cumsum=lambda x: x.cumsum(0),
    cumprod=lambda x: x.cumprod(0),
    cummax=lambda x: x.cummax(0),
    logcumsumexp=lambda x: x.logcumsumexp(0),
    gather=lambda x: x.gather(0, fb.arange(N - 1, -1, -1)),
    scatter=lambda x: x.scatter(0, fb.arange(N), 1.0),
    scatter_add=lambda x: x.scatter_add(0, fb.arange(N) // 2, x),
    index_select=lambda x: x.index_select(0, fb.arange(N - 1, -1, -1)),
    index=lambda x: x[fb.arange(N - 1, -1, -1)],
    index_mask=lambda x: x[x > 0],
    index_put=lambda x: x.index_put((fb.arange(N),), fb.ones(N)),
    index_add=lambda x: x.index_add(0, fb.arange(N), x),
    take=lambda x: x.take(fb.arange(N)),
    put=lambda x: x.put(fb.arange(N), x),
    where=lambda x: fb.where(x > 0, x, -x),
    add=lambda x: x + x,
    mul_broadcast=lambda x: x[:, None] * fb.ones(3),
    exp=lambda x: x.exp(),
    erf=lambda x: x.erf(),
    pow=lambda x: x.abs() ** 1.7,
    half=lambda x: x.half() + 1,
    double=lambda x: x.double(),
    clone=lambda x: x.clone(),
    contiguous=lambda x: x.reshape(100, -1).t().contiguous(),
    sum_dim=lambda x: x.reshape(-1, 3).sum(1),
    long_sum=lambda x: x.reshape(2, -1).t().sum(0),
    mean_columns=lambda x: x.reshape(-1, 3).mean(0),
    amax=lambda x: x.reshape(-1, 2).amax(1),
    argmax=lambda x: x.reshape(-1, 2).argmax(1),
    var=lambda x: x.reshape(-1, 3).var(1),
    logsumexp=lambda x: x.reshape(-1, 3).logsumexp(1),
    softmax=lambda x: x.softmax(0),
    softmax_rows=lambda x: x.reshape(-1, 3).softmax(0),
    log_softmax=lambda x: x.reshape(3, -1).log_softmax(1),
    norm=lambda x: x.reshape(-1, 3).norm(dim=1),
    cat=lambda x: fb.cat([x, x]),
    stack=lambda x: fb.stack([x, x], 1),
    split=lambda x: x[:50000].split(1)[:3],
    chunk=lambda x: x.chunk(N // 6)[:3],
    tensor_split=lambda x: x[:50000].tensor_split(50000)[:3],
    unbind=lambda x: x[:50000].unbind()[:3],
    tile=lambda x: x.tile(3),
    repeat=lambda x: x.repeat(3),
    repeat_interleave=lambda x: x.repeat_interleave(3),
    roll=lambda x: x.roll(7),
    flip=lambda x: x.flip(0),
    diff=lambda x: x.diff(),
    gradient=lambda x: fb.gradient(x),
    pad=lambda x: F.pad(x, (3, 5)),
    pad_reflect=lambda x: F.pad(x[None], (3, 5), mode="reflect"),
    pad_circular=lambda x: F.pad(x[None], (3, 5), mode="circular"),
    histc=lambda x: x.histc(N),
    histogram=lambda x: x.histogram(N),
    bincount=lambda x: (x.abs() * N).long().bincount(minlength=2 * N),
    bincount_weights=lambda x: (x.abs() * N).long().bincount(x.abs()),
    searchsorted=lambda x: fb.searchsorted(x.sort()[0], x),
    bucketize=lambda x: fb.bucketize(x, fb.tensor([-0.1, 0.0, 0.2])),
    outer=lambda x: fb.outer(x[:1000], x[:1000]),
    meshgrid=lambda x: [t.contiguous() for t in fb.meshgrid(x[:600], x[:700], indexing="ij")],
    cartesian_prod=lambda x: fb.cartesian_prod(x[:600], x[:700]),
    combinations=lambda x: fb.combinations(x[:700]),
    tril=lambda x: x.reshape(500, -1).tril(),
    tril_indices=lambda x: fb.tril_indices(700, 700),
    one_hot=lambda x: F.one_hot((x.abs() * 4).long(), 3 + 1),
    vander=lambda x: fb.vander(x, 4),
    cross=lambda x: fb.linalg.cross(x.reshape(-1, 3), x.reshape(-1, 3).flip(0)),
    isin=lambda x: fb.isin(x, x[:1000]),
    dropout=lambda x: F.dropout(x, 0.5),
    bernoulli=lambda x: x.abs().bernoulli(),
    multinomial=lambda x: x.abs().multinomial(1000, replacement=True),
    multinomial_apart=lambda x: x.abs().multinomial(1000),
    normal=lambda x: fb.normal(x, 1.0),
    poisson=lambda x: fb.poisson(x.abs()),
    randperm=lambda x: fb.randperm(N),
    rand=lambda x: fb.rand(N),
    randn=lambda x: fb.randn(N),
    randint=lambda x: fb.randint(0, 10, (N,)),
    arange=lambda x: fb.arange(N),
    linspace=lambda x: fb.linspace(0, 1, N),
    zeros=lambda x: fb.zeros(N),
    full=lambda x: fb.full((N,), 2.0),
    eye=lambda x: fb.eye(600),
    gelu=lambda x: F.gelu(x),
    prelu=lambda x: F.prelu(x, fb.tensor([0.2])),
    glu=lambda x: F.glu(x),
    tolist=lambda x: x.tolist()[::1000],
    tensor_of_list=lambda x: fb.tensor([0.5] * (4 * N)),
    tensor_of_range=lambda x: fb.tensor(range(N)),
    numpy_copy=lambda x: fb.tensor(x.numpy()),
    numpy_of_strides=lambda x: np.array(x.reshape(2, -1).t()),
    deepcopy=lambda x: copy.deepcopy(x),
    pickled=lambda x: pickle.loads(pickle.dumps(x)),
    einsum=lambda x: fb.einsum("ij,kj->ik", x.reshape(-1, 500), x.reshape(-1, 500)),
    matmul=lambda x: x.reshape(-1, 500) @ x.reshape(500, -1),
    matmul_f64=lambda x: x.double().reshape(-1, 500) @ x.double().reshape(500, -1),
    matmul_half=lambda x: x.half().reshape(-1, 500) @ x.half().reshape(500, -1),
    matmul_long=lambda x: (x * 9).long().reshape(-1, 100)[:500] @ (x * 9).long().reshape(100, -1)[:, :500],
    mv=lambda x: x.reshape(3, -1) @ x[: N // 3],
    bmm=lambda x: x.reshape(3, -1, 200).bmm(x.reshape(3, 200, -1)),
    baddbmm=lambda x: fb.baddbmm(fb.ones(3, 500, 500), x.reshape(3, 500, 200), x.reshape(3, 200, 500)),
    addmm=lambda x: fb.addmm(fb.ones(600, 600), x.reshape(600, 500), x.reshape(500, 600)),
    kron=lambda x: fb.kron(x[:600].reshape(20, 30), x[:600].reshape(30, 20)),
    cdist=lambda x: fb.cdist(x[:6000].reshape(-1, 10), x[:6000].reshape(-1, 10)),
    pdist=lambda x: F.pdist(x[:9000].reshape(-1, 10)),
    cosine_similarity=lambda x: F.cosine_similarity(x.reshape(-1, 3), x.reshape(-1, 3)),
    interpolate=lambda x: F.interpolate(x[:90000].reshape(1, 1, 300, 300), size=(700, 700), mode="bilinear"),
    interpolate_nearest=lambda x: F.interpolate(x[None, None], size=2 * N),
    interpolate_linear=lambda x: F.interpolate(x[None, None], size=2 * N, mode="linear"),
    interpolate_bicubic=lambda x: F.interpolate(x[:90000].reshape(1, 1, 300, 300), size=(700, 700), mode="bicubic"),
    grid_sample=lambda x: F.grid_sample(
        x[:90000].reshape(1, 1, 300, 300), x.reshape(1, 300, 500, 2), align_corners=False
    ),
    unfold=lambda x: F.unfold(x[:90000].reshape(1, 1, 300, 300), 3),
    max_pool1d=lambda x: F.max_pool1d(x[None], 3, 1),
    max_pool2d=lambda x: F.max_pool2d(x.reshape(1, 1, 500, 600), 3, 1, return_indices=True),
    avg_pool1d=lambda x: F.avg_pool1d(x[None], 3, 1),
    avg_pool2d=lambda x: F.avg_pool2d(x.reshape(1, 1, 500, 600), 3, 1),
    adaptive_avg_pool1d=lambda x: F.adaptive_avg_pool1d(x[None], N // 2),
    adaptive_max_pool1d=lambda x: F.adaptive_max_pool1d(x[None], N // 2),
    conv1d=lambda x: F.conv1d(x.reshape(1, 4, -1), fb.ones(4, 4, 5)),
    conv2d=lambda x: F.conv2d(x.reshape(1, 4, 250, 300), fb.ones(8, 4, 5, 5)),
    conv2d_winograd=lambda x: F.conv2d(x[:294912].reshape(1, 32, 96, 96), fb.ones(32, 32, 3, 3)),
    conv2d_depthwise=lambda x: F.conv2d(x.reshape(1, 4, 250, 300), fb.ones(4, 1, 3, 3), groups=4),
    conv2d_half=lambda x: F.conv2d(x.half().reshape(1, 4, 250, 300), fb.ones(8, 4, 5, 5, dtype=fb.half)),
    conv3d=lambda x: F.conv3d(x.reshape(1, 3, 10, 100, 100), fb.ones(3, 3, 3, 3, 3)),
    conv_transpose2d=lambda x: F.conv_transpose2d(x.reshape(1, 4, 250, 300), fb.ones(4, 4, 3, 3), stride=2),
    layer_norm=lambda x: F.layer_norm(x.reshape(-1, 300), (300,)),
    batch_norm=lambda x: F.batch_norm(x.reshape(-1, 3), None, None, training=True),
    group_norm=lambda x: F.group_norm(x.reshape(2, 6, -1), 3),
    attention=lambda x: F.scaled_dot_product_attention(*[x[:286720].reshape(4, 4, 128, 140)] * 3),
    cross_entropy_rows=lambda x: F.cross_entropy(x.reshape(-1, 3), fb.zeros(N // 3, dtype=fb.long), reduction="none"),
    nll_loss=lambda x: F.nll_loss(x.reshape(-1, 3), fb.zeros(N // 3, dtype=fb.long)),
    mse_rows=lambda x: F.mse_loss(x, x + 1, reduction="none"),
    smooth_l1=lambda x: F.smooth_l1_loss(x, x + 1, reduction="none"),
    kl_div=lambda x: F.kl_div(x, x.abs(), reduction="none"),
    embedding=lambda x: F.embedding((x.abs() * 100).long(), fb.ones(100, 4)),
    embedding_bag=lambda x: F.embedding_bag((x.abs() * 100).long().reshape(-1, 3), fb.ones(100, 30)),
)


def with_backward(name, make):
    """A case that goes back to its inputs, whose gradients it gives."""

    def prepare():
        inputs, call = make()

        def run():
            for t in inputs:
                t.grad = None
            loss = call(*inputs).sum()
            loss.backward()
            return [loss, *(t.grad for t in inputs)]

        def again():
            for t in inputs:
                t.grad = None

        for t in inputs:
            t.requires_grad_()
        run.again = again
        return run

    CASES[name + "_backward"] = prepare


def leaves(*shapes):
    return [draw(*shape) - 0.5 for shape in shapes]


with_backward("linear", lambda: (leaves((2000, 100), (300, 100), (300,)), F.linear))
with_backward("matmul", lambda: (leaves((600, 60), (60, 700)), fb.matmul))
with_backward("bmm", lambda: (leaves((3, 400, 100), (3, 100, 400)), fb.bmm))
with_backward("conv1d", lambda: (leaves((1, 4, 70000), (4, 4, 5)), F.conv1d))
with_backward("conv2d", lambda: (leaves((2, 3, 200, 200), (4, 3, 5, 5)), F.conv2d))
with_backward("conv2d_strided", lambda: (leaves((2, 3, 200, 200), (4, 3, 3, 3)), lambda x, w: F.conv2d(x, w, stride=2)))
with_backward("conv2d_winograd", lambda: (leaves((1, 32, 96, 96), (32, 32, 3, 3)), F.conv2d))
with_backward("conv2d_depthwise", lambda: (leaves((1, 8, 200, 200), (8, 1, 3, 3)), lambda x, w: F.conv2d(x, w, groups=8)))
with_backward("conv3d", lambda: (leaves((1, 2, 10, 100, 100), (3, 2, 3, 3, 3)), F.conv3d))
with_backward("max_pool2d", lambda: (leaves((1, 1, 500, 600)), lambda x: F.max_pool2d(x, 3, 1)))
with_backward("avg_pool2d", lambda: (leaves((1, 1, 500, 600)), lambda x: F.avg_pool2d(x, 3, 1)))
with_backward("adaptive_avg_pool1d", lambda: (leaves((1, N)), lambda x: F.adaptive_avg_pool1d(x, N // 2)))
with_backward("interpolate", lambda: (leaves((1, 1, 300, 300)), lambda x: F.interpolate(x, size=(600, 600), mode="bilinear")))
with_backward("layer_norm", lambda: (leaves((1000, 300), (300,), (300,)), lambda x, w, b: F.layer_norm(x, (300,), w, b)))
with_backward("batch_norm", lambda: (leaves((3000, 100), (100,), (100,)), lambda x, w, b: F.batch_norm(x, None, None, w, b, True)))
with_backward("group_norm", lambda: (leaves((2, 6, 25000), (6,), (6,)), lambda x, w, b: F.group_norm(x, 3, w, b)))
with_backward(
    "attention", lambda: (leaves(*[(4, 4, 160, 160)] * 3), lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
)
with_backward("cross_entropy", lambda: (leaves((100000, 3)), lambda x: F.cross_entropy(x, fb.zeros(100000, dtype=fb.long))))
with_backward("embedding", lambda: (leaves((1000, 300)), lambda w: F.embedding(fb.arange(3000) % 1000, w)))
with_backward("embedding_bag", lambda: (leaves((1000, 300)), lambda w: F.embedding_bag(fb.arange(3000).reshape(-1, 3) % 1000, w)))
with_backward("index", lambda: (leaves((N,)), lambda x: x[fb.arange(N - 1, -1, -1)]))
with_backward("gather", lambda: (leaves((N,)), lambda x: x.gather(0, fb.arange(N - 1, -1, -1))))
with_backward("sort", lambda: (leaves((N,)), lambda x: x.sort()[0] * fb.arange(N)))
with_backward("cumsum", lambda: (leaves((N,)), lambda x: x.cumsum(0) ** 2))
with_backward("softmax", lambda: (leaves((N,)), lambda x: x.softmax(0) ** 2))
with_backward("split", lambda: (leaves((N,)), lambda x: fb.stack([part.sum() for part in x.split(1000)])))
with_backward("cdist", lambda: (leaves((500, 10), (500, 10)), fb.cdist))
with_backward("prod", lambda: (leaves((N // 3, 3)), lambda x: x.prod(1)))
with_backward("grid_sample", lambda: (leaves((1, 1, 300, 300), (1, 300, 300, 2)), lambda x, g: F.grid_sample(x, g, align_corners=False)))


def in_place(name, change):
    """A case that writes into a tensor, which is as it was unless it is what it should be."""
    CASES[name] = lambda: (lambda x: lambda: change(x.clone()))(draw(N))


in_place("index_put_", lambda x: x.index_put_((fb.arange(N),), fb.ones(N), accumulate=True))
in_place("masked_scatter_", lambda x: x.masked_scatter_(x > 0.5, x * 2))
in_place("sort_out", lambda x: fb.sort(x, out=(fb.empty(N), fb.empty(N, dtype=fb.long))))
in_place("resize_", lambda x: x.resize_(2 * N)[:N])


@case("save_and_load")
def _():
    x = {"weights": draw(N)}

    def run():
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "weights.safetensors")
            fb.save(x, file)
            return fb.load(file)

    return run


@case("lstm")
def _():
    lstm, x = nn.LSTM(64, 128), draw(200, 8, 64)
    return lambda: lstm(x)[0]


@case("transformer_layer")
def _():
    layer, x = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0), draw(300, 4, 64)
    return lambda: layer(x)


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "sgd_momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True, maximize=True),
    "adam": lambda p: optim.Adam(p, 0.1, weight_decay=0.1, amsgrad=True, maximize=True),
    "adamw": lambda p: optim.AdamW(p, 0.1),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, weight_decay=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1, momentum=0.9, centered=True, weight_decay=0.1),
}


def snapshot(params, optimizer):
    return bits([*params, optimizer.state_dict()["state"]])


def step_case(name, make, steps):
    @case(f"step_{name}_{steps}")
    def _():
        params = [draw(N), draw(100, 1000), draw(N)]
        for p in params:
            p.grad = draw(*p.shape)
        optimizer = make(params)
        for _ in range(steps):
            optimizer.step()
        saved = copy.deepcopy([[p.detach() for p in params], optimizer.state_dict()])
        before = snapshot(params, optimizer)

        def run():
            """A step from the saved state, or an exception that leaves all as it was."""
            try:
                optimizer.step()
            except MemoryError:
                unlimited()
                assert snapshot(params, optimizer) == before, "a step that failed changed something"
                raise
            unlimited()
            return snapshot(params, optimizer)

        def again():
            with fb.no_grad():
                for p, value in zip(params, saved[0]):
                    p.copy_(value)
            optimizer.load_state_dict(copy.deepcopy(saved[1]))

        run.again = again
        return run


for _name, _make in OPTIMIZERS.items():
    for _steps in (0, 2):
        step_case(_name, _make, _steps)


# Their results are small, and they may find memory for their intermediate results.
NEED_LITTLE = {"kthvalue", "long_sum", "mean_columns", "median", "median_dim", "mv", "nanmedian", "numpy_of_strides"}
NEED_LITTLE |= {"split_backward", "step_sgd_0", "step_sgd_2", "topk_few"}


def attempt(name, seed):
    """The whole of a case, in a child: how many of its limited calls failed."""
    chance = random.Random(f"{name} {seed}")
    fb.manual_seed(seed)
    run = CASES[name]()
    again = getattr(run, "again", lambda: None)

    def call():
        fb.manual_seed(seed)
        return run()

    expected = bits(call())
    again()
    release()
    extras = sorted((int(2 ** chance.uniform(12, 25)) for _ in range(5)), reverse=True)
    failed = 0
    for extra in [*extras, 0, -64 * MiB]:
        got = limited(extra, call)
        if got is None:
            failed += 1
        else:
            assert bits(got) == expected, f"with {extra} bytes more: another result"
            del got
            again()
        release()
    assert bits(call()) == expected, "after memory had run out: another result"
    return failed


def in_child(work):
    """Exit status, and what `work` said, of a forked child that did it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            message = work()
            status = 0
        except BaseException as error:  # noqa: BLE001
            message = f"{type(error).__name__}: {error}"
        os.write(writer, str(message).encode()[:2000])
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return status, message


@pytest.fixture(scope="module")
def fresh():
    """Attempts in children of a process that has done nothing yet: what other tests freed would be memory enough."""
    with subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def ask(name):
            print(name, file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())

        yield ask
        server.stdin.close()


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_call_that_runs_out_fails_and_the_process_lives(name, fresh):
    status, message = fresh(name)
    assert status == 0, f"{'signal' if os.WIFSIGNALED(status) else 'status'} {status}: {message}"
    assert int(message) > 0 or name in NEED_LITTLE, "no call failed: the limit was none"


def test_there_are_many_operators():
    assert len(CASES) >= 200


HOSTILE = {
    "tensor of a range": lambda: fb.tensor(range(10**9)),
    "chunks of nothing": lambda: fb.zeros(0).chunk(10**8),
    "interpolate": lambda: F.interpolate(fb.ones(1, 1, 2), size=2**30),
    "split": lambda: fb.zeros(1, dtype=fb.uint8).expand(10**8).split(1),
    "tensor_split": lambda: fb.zeros(0).tensor_split(10**8),
    "zeros": lambda: fb.zeros(10**10),
    "histc": lambda: fb.ones(3).histc(10**9),
    "bincount": lambda: fb.tensor([10**9]).bincount(),
    "one_hot": lambda: F.one_hot(fb.tensor([0]), 10**9),
    "combinations": lambda: fb.combinations(fb.ones(3000), 4),
    "outer": lambda: fb.outer(fb.ones(10**5), fb.ones(10**5)),
    "repeat": lambda: fb.ones(10).repeat(10**8),
    "randperm": lambda: fb.randperm(10**9),
    "embedding": lambda: F.embedding(fb.zeros(10**5, dtype=fb.long), fb.ones(1, 10**5)),
    "adaptive_avg_pool1d": lambda: F.adaptive_avg_pool1d(fb.ones(1, 2), 10**9),
    "tolist": lambda: fb.zeros(1).expand(10**9).tolist(),
    "unbind": lambda: fb.zeros(1).expand(10**8).unbind(),
    "error text": lambda: fb.zeros(1).expand(10**6).split([1] * (10**6 - 1)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_needs_much_memory_is_refused(name):
    def work():
        resource.setrlimit(resource.RLIMIT_AS, (used() + 600 * MiB,) * 2)
        error = MemoryError if name != "error text" else RuntimeError
        with pytest.raises(error) as raised:
            HOSTILE[name]()
        assert len(str(raised.value)) < 10_000
        assert (fb.ones(3) + 1).tolist() == [2, 2, 2]
        return "lives"

    assert in_child(work) == (0, "lives")


def test_the_exception_is_pytorch_s_and_python_s():
    with pytest.raises(fb.OutOfMemoryError) as raised:
        fb.empty(1 << 58)
    assert isinstance(raised.value, MemoryError) and isinstance(raised.value, RuntimeError)
    assert "empty" in str(raised.value) and str(1 << 60) in str(raised.value)


def test_many_small_objects_are_refused_one_by_one():
    """Views and graphs hold little each, but there is an end to them."""

    def work():
        x = fb.ones(4, requires_grad=True)
        resource.setrlimit(resource.RLIMIT_AS, (used() + 24 * MiB, resource.getrlimit(resource.RLIMIT_AS)[1]))
        for make in (lambda y: y + 1, lambda y: y[:3]):
            kept = []
            with pytest.raises(MemoryError):
                while True:
                    kept.append(make(x))
            count = len(kept)
            del kept
            assert count > 1000
        return "lives"

    assert in_child(work) == (0, "lives")


if __name__ == "__main__":
    for line in sys.stdin:
        case = line.strip()
        print(json.dumps(in_child(lambda: attempt(case, 7))), flush=True)
