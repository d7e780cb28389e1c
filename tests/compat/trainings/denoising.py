"""diffusers: a small network learns to remove noise, and then denoises in twenty steps with the average of its weights."""

import diffusers
import torch
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel, compute_snr

from harness import double, integers, tensor, uniform

NOISE = {"num_train_timesteps": 100, "beta_end": 0.06}


def network():
    return diffusers.UNet2DModel(
        sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )


def trained(model, average):
    scheduler = diffusers.DDPMScheduler(**NOISE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    rates = get_cosine_schedule_with_warmup(optimizer, 2, 8)
    losses = []
    for step in range(8):
        images, noise = uniform(4, 1, 16, 16, seed=step, low=-1), tensor(4, 1, 16, 16, seed=100 + step)
        times = integers(4, below=100, seed=step)
        predicted = model(scheduler.add_noise(images, noise, times), times).sample
        weights = compute_snr(scheduler, times).clamp(max=5.0)
        loss = ((predicted - noise).square().mean((1, 2, 3)) * (weights / compute_snr(scheduler, times)).to(noise.dtype)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
        average.step(model.parameters())
        losses.append(float(loss))
    return losses


def denoised(model, scheduler):
    scheduler.set_timesteps(20)
    sample = tensor(2, 1, 16, 16, seed=7) * float(scheduler.init_noise_sigma)
    with torch.no_grad():
        for time in scheduler.timesteps:
            scaled = scheduler.scale_model_input(sample, time)
            sample = scheduler.step(model(scaled, time).sample, time, sample).prev_sample
    return sample


def case_unet():
    model = double(network())
    average = EMAModel(model.parameters(), decay=0.8, use_ema_warmup=True)
    losses = trained(model, average)
    average.copy_to(model.parameters())
    model.eval()
    kinds = (diffusers.DDIMScheduler, diffusers.DPMSolverMultistepScheduler, diffusers.EulerDiscreteScheduler)
    return [losses, [denoised(model, kind(**NOISE)) for kind in kinds]]
