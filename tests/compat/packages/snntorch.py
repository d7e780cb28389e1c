"""snntorch: spiking neurons with surrogate gradients, unrolled over time."""

import snntorch
import torch
from snntorch import spikegen, surrogate

from harness import fill, tensor, train, uniform

# States and surrogate gradients are in single precision.
DOUBLE = False
TOLERANCE = 1e-5


class Net(torch.nn.Module):
    def __init__(self, neuron):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 10), torch.nn.Linear(10, 3)
        self.neuron, self.last = neuron, snntorch.Leaky(beta=0.8, spike_grad=surrogate.fast_sigmoid(), reset_mechanism="zero")

    def forward(self, x):
        found = []
        state = self.neuron.init_leaky() if isinstance(self.neuron, snntorch.Leaky) else self.neuron.init_synaptic()
        state, memory = state if isinstance(state, tuple) else (state,), self.last.init_leaky()
        for step in x:
            spikes, *state = self.neuron(self.first(step), *state)
            out, memory = self.last(self.second(spikes), memory)
            found.append(memory + out)
        return torch.stack(found)


def case_leaky():
    return train(fill(Net(snntorch.Leaky(beta=0.9, learn_beta=True, spike_grad=surrogate.atan()))), tensor(7, 4, 6, scale=2.0))


def case_synaptic():
    return train(fill(Net(snntorch.Synaptic(alpha=0.7, beta=0.8, spike_grad=surrogate.fast_sigmoid()))), tensor(7, 4, 6, scale=2.0))


def case_codes():
    return [spikegen.latency(uniform(4, 5), num_steps=9, normalize=True, linear=True), spikegen.delta(tensor(6, 4), threshold=0.3)]
