"""pytorch-metric-learning: losses and miners, with gradients."""

from pytorch_metric_learning import losses, miners

from harness import double, integers, tensor


def case_losses():
    found = {}
    for kind in ("TripletMarginLoss", "ContrastiveLoss", "NTXentLoss", "MultiSimilarityLoss", "CircleLoss", "LiftedStructureLoss", "SupConLoss"):
        x = tensor(10, 6).requires_grad_()
        value = getattr(losses, kind)()(x, integers(10, below=3))
        value.backward()
        found[kind] = [value, x.grad]
    return found


def case_proxies():
    x = tensor(10, 6).requires_grad_()
    loss = double(losses.ProxyNCALoss(3, 6))
    value = loss(x, integers(10, below=3))
    value.backward()
    return [value, x.grad, [parameter.grad for parameter in loss.parameters()]]


def case_miner():
    x, labels = tensor(10, 6), integers(10, below=3)
    return list(miners.MultiSimilarityMiner()(x, labels))
