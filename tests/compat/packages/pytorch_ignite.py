"""pytorch-ignite: an engine that trains, with metrics and handlers."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EMAHandler, LRScheduler
from ignite.metrics import Accuracy, ConfusionMatrix, Loss

from harness import double, integers, tensor


def case_engine():
    model = double(torch.nn.Linear(4, 3))
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tensor(12, 4), integers(12, below=3)), batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, loss)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)))
    EMAHandler(model, momentum=0.1).attach(trainer, name="ema", event=Events.ITERATION_COMPLETED)
    trainer.run(data, max_epochs=3)
    metrics = {"accuracy": Accuracy(), "loss": Loss(loss), "confusion": ConfusionMatrix(3)}
    evaluator = create_supervised_evaluator(model, metrics=metrics)
    evaluator.run(data)
    return [list(model.parameters()), dict(evaluator.state.metrics)]
