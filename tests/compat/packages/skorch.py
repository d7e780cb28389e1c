"""skorch: a classifier in scikit-learn's search over a grid."""

import numpy
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor

from harness import double


class Net(torch.nn.Module):
    def __init__(self, hidden=4, outputs=2):
        super().__init__()
        self.body = double(torch.nn.Sequential(torch.nn.Linear(3, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, outputs)))

    def forward(self, x):
        return self.body(x)


def data():
    generator = numpy.random.RandomState(0)
    x = generator.standard_normal((40, 3))
    return x, (x.sum(1) > 0).astype(numpy.int64)


def options(**more):
    return {"train_split": None, "verbose": 0, "iterator_train__shuffle": False, "max_epochs": 5, "lr": 0.1, **more}


def case_search():
    from sklearn.model_selection import GridSearchCV

    net = NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.Adam, **options(lr=0.02))
    search = GridSearchCV(net, {"module__hidden": [3, 6], "lr": [0.01, 0.05]}, cv=2, scoring="neg_log_loss", refit=False)
    search.fit(*data())
    return list(search.cv_results_["mean_test_score"])


def case_regressor():
    x, _ = data()
    net = NeuralNetRegressor(Net, module__outputs=1, optimizer=torch.optim.SGD, **options(lr=0.01))
    net.fit(x, x.sum(1, keepdims=True))
    return [net.predict(x), [row["train_loss"] for row in net.history]]
