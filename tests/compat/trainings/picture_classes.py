"""torchvision: classes of pictures in folders, trained as torchvision's reference script does, with an average of the weights."""

import pathlib
import tempfile

import numpy
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2

from harness import double

CLASSES = ("cross", "disc", "square")
SIZE = 24


def picture(kind, generator):
    """A shape of some size and colour at some position, on a noisy background."""
    rows, columns = numpy.mgrid[:SIZE, :SIZE]
    row, column = generator.randint(10, SIZE - 10, 2)
    radius = generator.randint(6, 9)
    down, right = abs(rows - row), abs(columns - column)
    inside = {
        "cross": (numpy.minimum(down, right) < 2) & (numpy.maximum(down, right) <= radius),
        "disc": down**2 + right**2 <= radius**2,
        "square": numpy.maximum(down, right) <= radius,
    }[kind]
    pixels = generator.randint(0, 60, (SIZE, SIZE, 3))
    pixels[inside] = generator.randint(120, 256, 3)
    return Image.fromarray(pixels.astype(numpy.uint8))


def write_pictures(folder, count, seed):
    generator = numpy.random.RandomState(seed)
    for kind in CLASSES:
        (folder / kind).mkdir(parents=True)
        for index in range(count):
            picture(kind, generator).save(folder / kind / f"{index:02}.png")


def loader(folder, seed=None):
    steps = [v2.ToImage(), v2.ToDtype(torch.float64, scale=True), v2.Resize(32), v2.Normalize([0.4, 0.4, 0.4], [0.3, 0.3, 0.3])]
    data = torchvision.datasets.ImageFolder(folder, v2.Compose(steps))
    order = range(len(data)) if seed is None else numpy.random.RandomState(seed).permutation(len(data)).tolist()
    return torch.utils.data.DataLoader(data, batch_size=12, sampler=order)


def train_one_epoch(model, average, criterion, optimizer, batches):
    model.train()
    losses = []
    for image, target in batches:
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        average.update_parameters(model)
        losses.append(loss.item())
    return losses


def evaluate(model, criterion, batches):
    model.eval()
    loss, right, count = 0.0, 0, 0
    with torch.inference_mode():
        for image, target in batches:
            output = model(image)
            loss += criterion(output, target).item()
            right += (output.topk(1).indices[:, 0] == target).sum().item()
            count += len(target)
    return [loss, right / count]


def case_folders():
    model = double(torchvision.models.resnet18(num_classes=len(CLASSES)))
    weights = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": weights, "weight_decay": 1e-4}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, nesterov=True)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [1])
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5), use_buffers=True)
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_pictures(folder / "train", 24, 0)
        write_pictures(folder / "val", 4, 1)
        for epoch in range(5):
            losses = train_one_epoch(model, average, criterion, optimizer, loader(folder / "train", epoch))
            scheduler.step()
            held_out = loader(folder / "val")
            found.append([losses, scheduler.get_last_lr(), evaluate(model, criterion, held_out), evaluate(average, criterion, held_out)])
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "checkpoint.pth")
        loaded = torch.load(folder / "checkpoint.pth", weights_only=True)
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
    return [found, list(model.parameters())[:2]]
