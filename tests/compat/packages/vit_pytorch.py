"""vit-pytorch: a training step of several of its networks."""

from vit_pytorch import ViT
from vit_pytorch.cct import CCT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.simple_vit import SimpleViT

from harness import double, tensor, train

SMALL = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 48}


def case_vit():
    return train(double(ViT(**SMALL)), tensor(2, 3, 32, 32))


def case_simple_vit():
    return train(double(SimpleViT(**SMALL)), tensor(2, 3, 32, 32))


def case_deepvit():
    return train(double(DeepViT(**SMALL)), tensor(2, 3, 32, 32))


def case_cct():
    model = CCT(img_size=32, embedding_dim=32, n_conv_layers=1, num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=5,
                dropout_rate=0.0, attention_dropout=0.0, stochastic_depth_rate=0.0)
    return train(double(model), tensor(2, 3, 32, 32))
