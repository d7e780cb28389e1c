"""diffusers: a denoising network, an autoencoder, and schedulers over twenty steps."""

import diffusers
import torch

from harness import double, tensor, train

QUICK = ["schedulers"]


def unet():
    return diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )


def case_unet():
    return train(double(unet()), tensor(1, 3, 16, 16), torch.tensor([7]))


def case_autoencoder():
    model = diffusers.AutoencoderKL(block_out_channels=(16, 16), down_block_types=("DownEncoderBlock2D",) * 2,
                                    up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4, latent_channels=4)
    return train(double(model), tensor(1, 3, 16, 16))


def case_schedulers():
    found = {}
    for kind in ("DDIMScheduler", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler", "PNDMScheduler", "HeunDiscreteScheduler"):
        scheduler = getattr(diffusers, kind)(num_train_timesteps=100)
        scheduler.set_timesteps(20)
        sample = tensor(1, 2, 4, 4) * float(scheduler.init_noise_sigma)
        for step in scheduler.timesteps:
            scaled = scheduler.scale_model_input(sample, step)
            sample = scheduler.step(0.3 * torch.tanh(scaled), step, sample).prev_sample
        found[kind] = sample
    return found


def case_denoising():
    model, scheduler = double(unet()).eval(), diffusers.DDIMScheduler(num_train_timesteps=100)
    scheduler.set_timesteps(20)
    sample = tensor(1, 3, 16, 16)
    with torch.no_grad():
        for step in scheduler.timesteps:
            sample = scheduler.step(model(sample, step).sample, step, sample).prev_sample
    return sample
