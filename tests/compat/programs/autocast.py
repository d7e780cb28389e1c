"""The dtypes of results under autocast, and the gradients of a small network."""

import json
import warnings

import torch
import torch.nn.functional as F
from torch import nn

warnings.simplefilter("ignore")
FOUND = {}


def ramp(*sizes):
    count = 1
    for size in sizes:
        count *= size
    return torch.cos(torch.arange(count, dtype=torch.float64) * 1.3 + 0.2).float().reshape(sizes)


x, y, image = ramp(4, 4), ramp(4, 4) + 0.5, ramp(1, 2, 6, 6)
CALLS = {
    "mm": lambda h: torch.mm(x, y), "matmul": lambda h: x @ y, "method": lambda h: x.matmul(y), "bmm": lambda h: torch.bmm(x[None], y[None]),
    "addmm": lambda h: torch.addmm(x, x, y), "baddbmm": lambda h: torch.baddbmm(x[None], x[None], y[None]), "linear": lambda h: F.linear(x, y),
    "conv2d": lambda h: F.conv2d(image, ramp(3, 2, 3, 3)), "conv1d": lambda h: F.conv1d(image[0], ramp(3, 6, 3)),
    "transposed": lambda h: F.conv_transpose2d(image, ramp(2, 3, 2, 2)), "attention": lambda h: F.scaled_dot_product_attention(image, image, image),
    "add": lambda h: h + x, "mul": lambda h: h * 2, "exp": lambda h: h.exp(), "softmax": lambda h: h.softmax(-1), "sum": lambda h: h.sum(),
    "relu": lambda h: F.relu(h), "layer_norm": lambda h: F.layer_norm(h, (4,)), "double": lambda h: x.double() @ y.double(),
    "mse": lambda h: F.mse_loss(h, h * 2), "l1": lambda h: F.l1_loss(h, h * 2), "huber": lambda h: F.huber_loss(h, h * 2),
    "smooth": lambda h: F.smooth_l1_loss(h, h * 2), "cross": lambda h: F.cross_entropy(h, torch.tensor([0, 1, 2, 3])),
    "bce": lambda h: F.binary_cross_entropy_with_logits(h, x.sigmoid()), "kl": lambda h: F.kl_div(h, x.sigmoid(), reduction="sum"),
    "prod": lambda h: h.prod(), "trace": lambda h: torch.trace(h), "cdist": lambda h: torch.cdist(h, h), "quantile": lambda h: torch.quantile(h, 0.5),
    "cat": lambda h: torch.cat([h, x]), "stack": lambda h: torch.stack([h, h]), "mixed": lambda h: torch.stack([x, h]),
    "inverse": lambda h: torch.inverse(h + 3 * torch.eye(4).to(h.dtype)),
    "integers": lambda h: torch.arange(4) + 1, "mean": lambda h: h.mean(0), "norm": lambda h: h.norm(), "getitem": lambda h: h[0],
}
for name in ("bfloat16", "float16"):
    dtype = getattr(torch, name)
    with torch.autocast("cpu", dtype):
        h = x @ y
        FOUND[name] = {key: str(call(h).dtype) for key, call in CALLS.items()}
        FOUND[f"{name} state"] = [torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu")), torch.is_autocast_cpu_enabled()]
        with torch.autocast("cpu", enabled=False):
            FOUND[f"{name} off"] = [str((x @ y).dtype), torch.is_autocast_enabled("cpu")]
FOUND["after"] = [str((x @ y).dtype), torch.is_autocast_enabled("cpu")]

network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
for parameter in network.parameters():
    parameter.data.copy_(ramp(*parameter.shape))
with torch.autocast("cpu"):
    out = network(x)
    loss = F.cross_entropy(out, torch.tensor([0, 1, 2, 0]))
loss.backward()
FOUND["network"] = [str(out.dtype), str(loss.dtype), round(float(loss), 2), [str(p.grad.dtype) for p in network.parameters()]]


@torch.autocast("cpu", dtype=torch.bfloat16)
def decorated(a, b):
    return a @ b


FOUND["decorated"] = str(decorated(x, y).dtype)
print(json.dumps(FOUND))
