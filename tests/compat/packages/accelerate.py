"""accelerate: a training loop through its Accelerator, and weights that are dispatched."""

import tempfile

import accelerate
import torch

from harness import double, tensor


def case_loop():
    runner = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = double(torch.nn.Linear(3, 1))
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tensor(12, 3), tensor(12, 1, seed=1)), batch_size=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    model, optimizer, data = runner.prepare(model, optimizer, data)
    for x, y in data:
        with runner.accumulate(model):
            runner.backward(torch.nn.functional.mse_loss(model(x), y))
            runner.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return list(runner.unwrap_model(model).parameters())


def case_empty_weights():
    with accelerate.init_empty_weights():
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    devices = [parameter.device.type for parameter in model.parameters()]
    with tempfile.TemporaryDirectory() as folder:
        accelerate.Accelerator(cpu=True).save_model(double(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))), folder)
        loaded = accelerate.load_checkpoint_and_dispatch(model, folder, device_map={"": "cpu"})
    return [devices, loaded(tensor(2, 3))]
