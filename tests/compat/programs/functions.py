"""Functions that few programs use: vmap, masked reductions, alignment losses, pooling at random positions, recurrent functions."""

import json
import warnings

import torch
import torch.nn.functional as F
from torch import func, masked, nn

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
FOUND = {}


def ramp(*sizes, scale=1.0):
    count = 1
    for size in sizes:
        count *= size
    return (torch.cos(torch.arange(count, dtype=torch.float64) * 1.3 + 0.2) * scale).reshape(sizes)


def plain(value):
    if isinstance(value, torch.Tensor):
        return [list(value.shape), str(value.dtype), value.detach().reshape(-1).tolist()]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def differentiated(function, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    result = function(*inputs)
    results = result if isinstance(result, tuple) else (result,)
    sum((x * ramp(*x.shape)).sum() for x in results if x.is_floating_point()).backward()
    return [plain(result), plain([x.grad for x in inputs])]


def refused(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "accepted"


x, y = ramp(4, 3), ramp(4, 3, scale=2.0)
FOUND["vmap"] = plain(
    [
        torch.vmap(torch.dot)(x, y),
        func.vmap(lambda a, b: a.outer(b), in_dims=(1, None), out_dims=1)(x, y[:, 0]),
        func.vmap(lambda d: {"s": d["a"].sum(), "p": d["b"] * 2}, in_dims=({"a": 0, "b": 1},))({"a": x, "b": y.T}),
        func.vmap(func.grad(lambda a: (a**3).sum()))(x),
        func.vmap(func.vmap(torch.add))(x, y),
        func.vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(x),
        func.vmap(func.jacrev(torch.sin))(x),
    ]
)
FOUND["vmap gradient"] = differentiated(func.vmap(lambda a, b: (a * b).cumsum(0)), x, y)
FOUND["vmap refuses"] = [
    refused(lambda: torch.vmap(torch.add)(x, y[:3])), refused(lambda: torch.vmap(torch.sin, in_dims=2)(x)),
    refused(lambda: torch.vmap(torch.sin, in_dims=None)(x)), refused(lambda: torch.vmap(lambda a: 3)(x)),
]
models = [nn.Linear(3, 2) for _ in range(3)]
for number, model in enumerate(models):
    for parameter in model.parameters():
        parameter.data.copy_(ramp(*parameter.shape, scale=number + 1.0))
params, buffers = func.stack_module_state(models)
FOUND["ensemble"] = plain([params, func.vmap(lambda p, a: func.functional_call(models[0], p, (a,)), in_dims=(0, None))(params, x)])
norms = func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()))
FOUND["func"] = plain(
    [
        norms(x), list(norms.state_dict()), func.linearize(torch.sin, x)[1](y), func.functionalize(lambda a: a.clone().add_(1))(x),
        func.rearrange(ramp(2, 3, 4), "b c (h w) -> w (c b) h", h=2), func.rearrange(ramp(2, 3, 4), "... c -> c ..."),
    ]
)

mask = ramp(4, 3) > -0.3
mask[2] = False
mask[2, 1] = True
for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp", "var", "std", "norm"):
    options = {"ord": 3.0} if name == "norm" else {}
    dims = [1, (0, 1)] if name == "logsumexp" else [None, 1, (0, 1)]
    for dim in dims:
        for keepdim in (False, True):
            FOUND[f"masked {name} {dim} {keepdim}"] = differentiated(
                lambda a: getattr(masked, name)(a, dim=dim, keepdim=keepdim, mask=mask, **options), x
            )
for name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod"):
    result = getattr(masked, name)(x, 1, mask=mask)
    FOUND[f"masked {name}"] = plain(torch.where(mask, result, torch.zeros_like(result)))
FOUND["masked"] = plain(
    [
        masked.argmax(x, 1, mask=mask), masked.argmin(x, 0, mask=mask), masked.median(x, 1, mask=mask),
        torch.where(mask, masked.normalize(x, 2.0, 1, mask=mask), torch.zeros_like(x)),
        masked.sum(torch.arange(12, dtype=torch.int32).reshape(4, 3), mask=mask), masked.mean(x.float(), dtype=torch.float64),
        masked.logaddexp(x, y, input_mask=mask, other_mask=mask), masked.amax(torch.arange(12).reshape(4, 3), 1, mask=mask),
        masked.var(x, 1, unbiased=False, mask=mask),
    ]
)

scores = ramp(6, 3, 5)
targets = torch.tensor([[1, 2, 2, 0], [3, 4, 1, 0], [2, 0, 0, 0]])
lengths = ([6, 5, 4], [3, 3, 1])
for reduction in ("none", "mean", "sum"):
    FOUND[f"ctc {reduction}"] = differentiated(lambda a: F.ctc_loss(a.log_softmax(2), targets, *lengths, reduction=reduction), scores)
FOUND["ctc others"] = [
    differentiated(lambda a: nn.CTCLoss()(a.log_softmax(2), torch.tensor([1, 2, 2, 3, 4, 1, 2]), *map(torch.tensor, lengths)), scores),
    differentiated(lambda a: F.ctc_loss(a.log_softmax(1), targets[1, :3], torch.tensor(6), torch.tensor(3)), scores[:, 0]),
    plain(F.ctc_loss(scores.log_softmax(2), targets, [2, 5, 4], lengths[1], reduction="none", zero_infinity=True)),
    plain(F.ctc_loss(scores.log_softmax(2), targets, [2, 5, 4], lengths[1], reduction="none")),
    plain(F.ctc_loss(scores.log_softmax(2), targets, lengths[0], [3, 0, 1], blank=4, reduction="none")),
    plain(torch.ctc_loss(scores.log_softmax(2), targets, *lengths, 0, 2, False)),
]

draws = torch.rand(2, 3, 2, generator=None) * 0 + torch.tensor([0.3, 0.8])
FOUND["fractional"] = [
    differentiated(lambda a: F.fractional_max_pool2d(a, 2, (3, 4), _random_samples=draws), ramp(2, 3, 7, 9)),
    plain(F.fractional_max_pool2d(ramp(2, 3, 7, 9), (3, 2), output_ratio=(0.5, 0.6), return_indices=True, _random_samples=draws)),
    plain(F.fractional_max_pool3d(ramp(1, 2, 5, 6, 7), 2, (2, 3, 4), return_indices=True, _random_samples=torch.tensor([0.1, 0.4, 0.9]).expand(1, 2, 3))),
    list(nn.FractionalMaxPool2d(2, output_ratio=0.5)(ramp(2, 3, 8, 8)).shape),
]
softmax = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0)
for parameter in softmax.parameters():
    parameter.data.copy_(ramp(*parameter.shape))
FOUND["adaptive"] = [
    differentiated(lambda a: softmax(a, torch.tensor([0, 5, 11, 2]))[1], ramp(4, 8)), plain(softmax.log_prob(ramp(4, 8))),
    plain(softmax.predict(ramp(4, 8))), sorted(softmax.state_dict()),
]

for kind, layer in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn_tanh", nn.RNN)):
    network = layer(3, 4, num_layers=2, bidirectional=True)
    for parameter in network.parameters():
        parameter.data.copy_(ramp(*parameter.shape, scale=0.5))
    weights = list(network.parameters())
    state = ramp(4, 2, 4)
    hx = [state, state * 2] if kind == "lstm" else state
    FOUND[kind] = plain(getattr(torch, kind)(ramp(5, 2, 3), hx, weights, True, 2, 0.0, False, True, False))
    packed = nn.utils.rnn.pack_padded_sequence(ramp(5, 2, 3), [5, 3])
    FOUND[f"{kind} packed"] = plain(getattr(torch, kind)(packed.data, packed.batch_sizes, hx, weights, True, 2, 0.0, False, True))
for kind, gates in (("lstm_cell", 4), ("gru_cell", 3), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1)):
    state = ramp(2, 4)
    hx = [state, state * 2] if kind == "lstm_cell" else state
    FOUND[kind] = plain(getattr(torch, kind)(ramp(2, 3), hx, ramp(4 * gates, 3), ramp(4 * gates, 4), ramp(4 * gates), ramp(4 * gates)))

FOUND["older"] = plain(
    [
        torch.cosine_similarity(x, y), torch.cosine_embedding_loss(x, y, torch.tensor([1.0, -1, 1, -1]), 0.1, 0),
        torch.hinge_embedding_loss(x, torch.ones(4, 3), 1.0, 2), torch.margin_ranking_loss(x, y, torch.ones(4, 3), 0.2, 1),
        torch.poisson_nll_loss(x, y.abs(), True, False, 1e-8, 1), torch.triplet_margin_loss(x, y, x + 1, reduction=1),
        torch.instance_norm(ramp(2, 3, 5), None, None, None, None, True, 0.1, 1e-5, False), torch.frobenius_norm(x, [0, 1]),
        torch.norm_except_dim(x, 2, 0), torch.nuclear_norm(x), torch.range(1, 4, 0.5), torch.range(0, 3, dtype=torch.int64),
        torch.fake_quantize_per_tensor_affine(x.float(), 0.1, 3, 0, 15),
        torch.fake_quantize_per_channel_affine(x.float(), torch.tensor([0.1, 0.2, 0.3]).float(), torch.zeros(3, dtype=torch.int32), 1, -4, 4),
        torch.conv_tbc(ramp(6, 2, 3), ramp(3, 3, 4), ramp(4), 1), torch.cond(torch.tensor(True), torch.sin, torch.cos, (x,)),
        torch.view_as_real_copy(torch.view_as_complex(ramp(3, 2))), torch.view_as_complex_copy(ramp(3, 2)).abs(),
        torch.embedding_renorm_(ramp(5, 3).clone(), torch.tensor([0, 3, 3]), 0.5, 2.0),
    ]
)
weight, offsets = ramp(2, 8, 8, scale=0.5).bfloat16(), torch.tensor([3, 7], dtype=torch.int32)
FOUND["grouped"] = plain(F.grouped_mm(ramp(7, 8).bfloat16(), weight, offs=offsets).float())
FOUND["pools"] = plain(
    [F.max_pool2d_with_indices(ramp(1, 2, 6, 6), 2), F.adaptive_max_pool1d_with_indices(ramp(1, 2, 6), 3), F.max_pool1d_with_indices(ramp(1, 2, 6), 2)]
)
t = ramp(2, 3, 4).transpose(0, 2)
FOUND["methods"] = plain(
    [
        t.dense_dim(), t.sparse_dim(), t.dim_order(), torch.ones(1).is_nonzero(), t.is_distributed(), t.is_set_to(t), t.is_set_to(t.T), t.to_dense(),
        t.float().dequantize(), torch.zeros(3).map2_(torch.ones(3), torch.arange(3.0), lambda a, b, c: a + b * c), t.volatile, str(t.grad_dtype), t.name,
        x.clone().swapaxes_(0, 1), x[:3].lu()[0], x[:3].lu_solve(*torch.linalg.lu_factor(y[:3] + 3 * torch.eye(3))), torch.zeros(4, 3).module_load(x),
        refused(lambda: t.coalesce()), refused(lambda: t.solve(t)), refused(lambda: t.indices()),
    ]
)
FOUND["types"] = [
    str(torch.ListType(torch.IntType.get())), torch.DictType(torch.StringType.get(), torch.TensorType.get()).annotation_str,
    str(torch.OptionalType(torch.FloatType.get())), str(torch.TupleType([torch.IntType.get(), torch.BoolType.get()])),
    torch.IntType.get().isSubtypeOf(torch.NumberType.get()), torch.IntType.get() == torch.IntType.get(),
    torch.NoneType.get().isSubtypeOf(torch.OptionalType(torch.IntType.get())), torch.ListType.ofInts().getElementType().kind(),
    str(torch.FutureType(torch.IntType.get())), torch.AnyType.get().kind(), torch.IntType.get().isSubtypeOf(torch.AnyType.get()),
]
future = torch.futures.Future()
following = future.then(lambda done: done.value() + 1)
both = torch.futures.collect_all([future, following])
future.set_result(3)
FOUND["futures"] = [following.wait(), [f.wait() for f in both.wait()], torch.futures.wait_all([future, following]), future.done()]
print(json.dumps(FOUND))
