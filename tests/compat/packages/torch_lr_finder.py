"""torch-lr-finder: the losses of rising learning rates, after which model and optimiser are as before."""

import torch
import torch_lr_finder

from harness import double, tensor


def case_range_test():
    model = double(torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    data = torch.utils.data.TensorDataset(tensor(24, 5), tensor(24, 1, seed=1))
    finder = torch_lr_finder.LRFinder(model, optimizer, torch.nn.MSELoss(), device="cpu")
    finder.range_test(torch.utils.data.DataLoader(data, batch_size=6), end_lr=1, num_iter=12, accumulation_steps=2)
    history = [finder.history["lr"], finder.history["loss"]]
    finder.reset()
    return [history, list(model.parameters()), optimizer.param_groups[0]["lr"]]
