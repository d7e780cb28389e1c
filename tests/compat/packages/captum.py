"""captum: attributions of a small network by several methods."""

import torch
from captum import attr

from harness import double, tensor

REASONS = {"lrp": "x.data = y is refused where another tensor shares the memory of y: a tensor never changes its storage"}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.second = torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.act(self.first(x)))


def attributed(kind, *arguments, **options):
    return getattr(attr, kind)(double(Net()), *arguments).attribute(tensor(4, 5), target=1, **options)


def case_gradients():
    names = ("IntegratedGradients", "Saliency", "InputXGradient", "GuidedBackprop", "Deconvolution")
    return {name: attributed(name) for name in names}


def case_deep_lift():
    return attributed("DeepLift", baselines=tensor(4, 5, seed=3))


def case_perturbation():
    return {"FeatureAblation": attributed("FeatureAblation"), "Occlusion": attributed("Occlusion", sliding_window_shapes=(2,))}


def case_lrp():
    return attributed("LRP")


def case_layers():
    model = double(Net())
    return [
        attr.LayerConductance(model, model.first).attribute(tensor(4, 5), target=0),
        attr.LayerActivation(model, model.act).attribute(tensor(4, 5)),
        attr.NeuronGradient(model, model.first).attribute(tensor(4, 5), 2),
    ]
