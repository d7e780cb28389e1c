"""denoising-diffusion-pytorch: its network, with a training step."""

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet

from harness import double, tensor, train

TOLERANCE = 2e-5


def unet():
    return double(Unet(dim=8, dim_mults=(1, 2), flash_attn=False))


def case_unet():
    return train(unet(), tensor(1, 3, 16, 16), torch.tensor([5]))


def case_losses():
    diffusion = GaussianDiffusion(unet(), image_size=16, timesteps=20)
    return diffusion.p_losses(tensor(1, 3, 16, 16, scale=0.3), torch.tensor([7]), noise=tensor(1, 3, 16, 16, seed=1))
