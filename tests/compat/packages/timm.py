"""timm: a training step of ten architectures, an optimiser, and a schedule."""

import timm
import torch

from harness import double, tensor, train

QUICK = ["vit"]


def network(name, size=64, **options):
    return train(double(timm.create_model(name, pretrained=False, num_classes=7, **options)), tensor(2, 3, size, size))


def case_vit():
    return network("vit_tiny_patch16_224", img_size=64, depth=3)


def case_deit():
    return network("deit3_small_patch16_224", img_size=64, depth=2)


def case_convnext():
    return network("convnext_atto")


def case_resnet():
    return network("resnet10t")


def case_efficientnet():
    return network("efficientnet_lite0")


def case_mobilenet():
    return network("mobilenetv3_small_050")


def case_regnet():
    return network("regnetx_002")


def case_swin():
    return network("swin_tiny_patch4_window7_224", img_size=64, window_size=4, embed_dim=24, depths=(1, 1, 2, 1), drop_path_rate=0.0)


def case_mixer():
    return network("mixer_s32_224", img_size=64)


def case_coat():
    return network("pit_ti_224", size=224)


def case_features():
    model = double(timm.create_model("resnet10t", pretrained=False, features_only=True))
    return train(model, tensor(1, 3, 64, 64))


def case_optimizers():
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler

    found = {}
    for name in ("lamb", "lion", "adopt", "nadamw", "adafactor", "lookahead_adamw", "rmsproptf"):
        model = double(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)))
        optimizer = create_optimizer_v2(model, name, lr=1e-2, weight_decay=0.05)
        scheduler = CosineLRScheduler(optimizer, 10, warmup_t=2, warmup_lr_init=1e-4)
        for epoch in range(4):
            optimizer.zero_grad()
            model(tensor(3, 4)).square().sum().backward()
            optimizer.step()
            scheduler.step(epoch)
        found[name] = [list(model.parameters()), optimizer.param_groups[0]["lr"]]
    return found
