"""segmentation-models-pytorch: decoders over a small encoder, and its losses."""

import segmentation_models_pytorch as smp
import torch

from harness import double, tensor, train


def network(kind, **options):
    model = getattr(smp, kind)(encoder_name="resnet18", encoder_weights=None, classes=2, **options)
    return train(double(model), tensor(2, 3, 64, 64))


def case_unet():
    return network("Unet")


def case_fpn():
    return network("FPN", decoder_dropout=0.0)


def case_linknet():
    return network("Linknet")


def case_deeplab():
    return network("DeepLabV3Plus", decoder_aspp_dropout=0.0)


def case_losses():
    scores = tensor(2, 1, 8, 8).requires_grad_()
    mask = (tensor(2, 1, 8, 8, seed=1) > 0).to(torch.float64)
    kinds = [smp.losses.DiceLoss("binary"), smp.losses.JaccardLoss("binary"), smp.losses.FocalLoss("binary")]
    found = [loss(scores, mask) for loss in kinds]
    sum(found).backward()
    return [found, scores.grad]
