"""lightning: its Trainer with a checkpoint from which training goes on, and Fabric."""

import logging
import tempfile

import lightning
import torch

from harness import double, tensor

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = double(torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
        self.losses = []

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.body(x), y)
        self.log("loss", loss)
        self.losses.append(float(loss))
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def trainer(folder, epochs):
    return lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", default_root_dir=folder, logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False,
    )


def loader():
    data = torch.utils.data.TensorDataset(tensor(12, 5), tensor(12, 1, seed=1))
    return torch.utils.data.DataLoader(data, batch_size=4)


def case_trainer():
    model, resumed = Net().double(), Net().double()
    with tempfile.TemporaryDirectory() as folder:
        first = trainer(folder, 2)
        first.fit(model, loader())
        first.save_checkpoint(f"{folder}/half.ckpt")
        trainer(folder, 4).fit(resumed, loader(), ckpt_path=f"{folder}/half.ckpt", weights_only=False)
    return [model.losses, resumed.losses, list(resumed.parameters())]


def case_fabric():
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    model = double(torch.nn.Linear(5, 1))
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in fabric.setup_dataloaders(loader()):
        optimizer.zero_grad()
        fabric.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
    return list(model.parameters())
