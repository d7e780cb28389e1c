"""timm: three steps of ten architectures by its own optimiser, schedule, loss and average of the weights."""

import timm
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch

from harness import double, gradients, integers, tensor

TOLERANCE = 1e-5


def steps(name, size=64, **options):
    model = double(timm.create_model(name, pretrained=False, num_classes=5, **options))
    optimizer = timm.optim.create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=0.05)
    scheduler = timm.scheduler.CosineLRScheduler(optimizer, 10, warmup_t=2, warmup_lr_init=1e-4, t_in_epochs=False)
    average = timm.utils.ModelEmaV3(model, decay=0.9)
    criterion = timm.loss.LabelSmoothingCrossEntropy(0.1)
    images, labels, losses = tensor(3, 3, size, size), integers(3, below=5), []
    model.train()
    for step in range(3):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        timm.utils.dispatch_clip_grad(model.parameters(), 1.0, mode="norm")
        optimizer.step()
        scheduler.step_update(step)
        average.update(model, step=step)
        losses.append(float(loss))
    averaged = average.module.eval()(images)
    return [losses, gradients(model), optimizer.param_groups[0]["lr"], averaged]


def case_vit():
    return steps("vit_tiny_patch16_224", img_size=64, depth=3)


def case_resnet():
    return steps("resnet10t")


def case_convnext():
    return steps("convnext_atto")


def case_efficientnet():
    return steps("efficientnet_lite0")


def case_mobilenet():
    return steps("mobilenetv3_small_050")


def case_regnet():
    return steps("regnetx_002")


def case_swin():
    return steps("swin_tiny_patch4_window7_224", img_size=64, window_size=4, embed_dim=24, depths=(1, 1, 2, 1), drop_path_rate=0.0)


def case_mixer():
    return steps("mixer_s32_224", img_size=64)


def case_deit():
    return steps("deit_tiny_distilled_patch16_224", img_size=64, depth=3)


def case_ghostnet():
    return steps("ghostnet_050", drop_rate=0.0)
