"""efficientnet-pytorch: a training step of its smallest network."""

from efficientnet_pytorch import EfficientNet

from harness import double, tensor, train


def case_b0():
    model = EfficientNet.from_name("efficientnet-b0", num_classes=5, dropout_rate=0.0, drop_connect_rate=0.0)
    return train(double(model), tensor(2, 3, 64, 64))
