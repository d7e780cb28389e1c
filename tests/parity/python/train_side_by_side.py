"""The same network, weights and data in PyTorch and here: losses over 200 steps of each optimiser agree to 1e-5.

Run it with a Python that has both packages: `python tests/parity/python/train_side_by_side.py`.
"""

from __future__ import annotations

import sys

import torch

import flambeau

STEPS = 200
BOUND = 1e-5


def mlp(lib):
    nn = lib.nn
    return nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5))


def convolutions(lib):
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.ELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


def transformer(lib):
    nn = lib.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(12, 8), nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(48, 5))


NETWORKS = {
    "mlp": (mlp, lambda: torch.randn(64, 20)),
    "convolutions": (convolutions, lambda: torch.randn(32, 1, 12, 12)),
    "transformer": (transformer, lambda: torch.randint(12, (32, 6))),
}
OPTIMIZERS = {
    "SGD": lambda lib, params: lib.optim.SGD(params, lr=0.05),
    "SGD, momentum": lambda lib, params: lib.optim.SGD(params, lr=0.02, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "Adam": lambda lib, params: lib.optim.Adam(params, lr=1e-3),
    "AdamW": lambda lib, params: lib.optim.AdamW(params, lr=1e-3, amsgrad=True),
    "RMSprop": lambda lib, params: lib.optim.RMSprop(params, lr=1e-4, centered=True),
    "Adagrad": lambda lib, params: lib.optim.Adagrad(params, lr=1e-2),
}


def here(tensor):
    dtype = flambeau.float32 if tensor.is_floating_point() else flambeau.int64
    return flambeau.tensor(tensor.tolist(), dtype=dtype)


def train(lib, net, make, x, y):
    """The loss at each step, with a schedule and cut gradients."""
    optimizer = make(lib, net.parameters())
    scheduler = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        lib.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def main():
    faults = 0
    for name, (make_network, make_input) in NETWORKS.items():
        for optimizer, make in OPTIMIZERS.items():
            torch.manual_seed(0)
            x, y = make_input(), torch.randint(5, (32,))
            x = x[:32]
            theirs, ours = make_network(torch), make_network(flambeau)
            ours.load_state_dict({key: here(value) for key, value in theirs.state_dict().items()})
            losses = train(flambeau, ours, make, here(x), here(y)), train(torch, theirs, make, x, y)
            worst = max(abs(a - b) for a, b in zip(*losses))
            faults += not worst <= BOUND
            print(f"{name:13} {optimizer:14} {losses[1][0]:.4f} -> {losses[1][-1]:.4f}  largest difference {worst:.1e}")
    print("all agree" if faults == 0 else f"{faults} differ by more than {BOUND:.0e}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
