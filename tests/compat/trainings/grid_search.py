"""skorch: a network in scikit-learn's pipeline and its search over a grid, with callbacks and refitting."""

import numpy
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import EpochScoring, GradientNormClipping, LRScheduler
from skorch.helper import predefined_split
from skorch.dataset import Dataset

from harness import double


class Net(torch.nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.body = double(torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 10)))

    def forward(self, x):
        return self.body(x)


def digits(first, last):
    pictures, labels = load_digits(return_X_y=True)
    return pictures[first:last] / 16, labels[first:last].astype(numpy.int64)


def network(**options):
    return NeuralNetClassifier(
        Net, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.Adam, batch_size=50, verbose=0, iterator_train__shuffle=False,
        **options,
    )


def case_pipeline():
    net = network(max_epochs=6, train_split=None, callbacks=[GradientNormClipping(1.0), LRScheduler("StepLR", step_size=3, gamma=0.5)])
    pipeline = Pipeline([("scale", StandardScaler()), ("net", net)])
    grid = {"net__module__hidden": [8, 24], "net__lr": [0.005, 0.02]}
    search = GridSearchCV(pipeline, grid, cv=3, scoring=["neg_log_loss", "accuracy"], refit="neg_log_loss")
    search.fit(*digits(0, 300))
    pictures, labels = digits(300, 400)
    scores = [list(search.cv_results_[f"mean_test_{name}"]) for name in ("neg_log_loss", "accuracy")]
    return [scores, search.best_params_, search.predict_proba(pictures), float((search.predict(pictures) == labels).mean())]


def case_history():
    held_out = predefined_split(Dataset(*digits(300, 400)))
    net = network(max_epochs=8, lr=0.01, train_split=held_out, callbacks=[EpochScoring("accuracy", lower_is_better=False, on_train=True)])
    net.fit(*digits(0, 300))
    return [net.history[:, name] for name in ("train_loss", "valid_loss", "valid_acc", "accuracy")]
