"""monai: networks, losses and metrics for volumes."""

import monai
import torch

from harness import double, tensor, train, uniform


def case_unet():
    model = monai.networks.nets.UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
    return train(double(model), tensor(1, 1, 16, 16, 16))


def case_losses():
    x = tensor(2, 2, 6, 6, 6).requires_grad_()
    y = (tensor(2, 2, 6, 6, 6, seed=1) > 0).double()
    found = [
        monai.losses.DiceLoss(sigmoid=True)(x, y), monai.losses.DiceCELoss(softmax=True)(x, y), monai.losses.FocalLoss()(x, y),
        monai.losses.TverskyLoss(sigmoid=True)(x, y),
    ]
    sum(found).backward()
    return [found, x.grad]


def case_transforms():
    x = uniform(1, 8, 9, 10)
    parts = [monai.transforms.ScaleIntensity(), monai.transforms.CenterSpatialCrop((6, 6, 6)), monai.transforms.Flip(1), monai.transforms.NormalizeIntensity()]
    return torch.as_tensor(monai.transforms.Compose(parts)(x))


def case_inference():
    model = double(torch.nn.Conv3d(1, 2, 3, padding=1))
    return monai.inferers.sliding_window_inference(uniform(1, 1, 10, 10, 10), (6, 6, 6), 2, model)
