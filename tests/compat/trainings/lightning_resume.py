"""lightning: a Trainer with validation, callbacks and clipping is stopped, and another one goes on from its checkpoint."""

import logging
import tempfile

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

from harness import double, tensor

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Regression(lightning.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        body = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.BatchNorm1d(width), torch.nn.GELU(), torch.nn.Linear(width, 1))
        self.body = double(body)
        self.seen = {"loss": [], "validation": []}

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.huber_loss(self.body(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True)
        self.seen["loss"].append(float(loss))
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("validation", torch.nn.functional.mse_loss(self.body(x), y), prog_bar=True)

    def on_validation_epoch_end(self):
        self.seen["validation"].append(float(self.trainer.callback_metrics["validation"]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-2)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, total_steps=72)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def loaders():
    x = tensor(128, 6)
    y = (x[:, :2].prod(1) + x[:, 2:].sum(1).sin())[:, None]
    return DataLoader(TensorDataset(x[:96], y[:96]), batch_size=8), DataLoader(TensorDataset(x[96:], y[96:]), batch_size=8)


def trainer(folder, epochs):
    checkpoints = ModelCheckpoint(folder, "best", monitor="validation", save_last=True)
    watched = [checkpoints, EarlyStopping("validation", patience=10), LearningRateMonitor("step")]
    return lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=watched, logger=CSVLogger(folder), log_every_n_steps=1, gradient_clip_val=0.5,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
    )


def case_resume():
    whole, half, rest = Regression().double(), Regression().double(), Regression().double()
    train, validation = loaders()
    with tempfile.TemporaryDirectory() as folder:
        trainer(f"{folder}/whole", 6).fit(whole, train, validation)
        first = trainer(f"{folder}/half", 3)
        first.fit(half, train, validation)
        second = trainer(f"{folder}/rest", 6)
        second.fit(rest, train, validation, ckpt_path=f"{folder}/half/last.ckpt", weights_only=False)
        best = Regression.load_from_checkpoint(f"{folder}/rest/best.ckpt", weights_only=False).double()
        measured = second.validate(best, validation, verbose=False)
    same = all(torch.equal(a, b) for a, b in zip(whole.parameters(), rest.parameters()))
    return [whole.seen, half.seen, rest.seen, same, measured, list(best.body.parameters())]
