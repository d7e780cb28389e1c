"""torchvision: networks with a training step, transforms of images, and the operators that are Python."""

import torch
import torchvision
from torchvision.transforms import v2

from harness import double, integers, tensor, train, uniform

REASONS = {
    "detection": "torchvision.ops.nms and roi_align are compiled for PyTorch's C++ library",
}
QUICK = ["resnet18"]


def network(name, size=64, **options):
    return train(double(getattr(torchvision.models, name)(num_classes=10, **options)), tensor(2, 3, size, size))


def case_resnet18():
    return network("resnet18")


def case_mobilenet_v3_small():
    return network("mobilenet_v3_small", dropout=0.0)


def case_shufflenet_v2():
    return network("shufflenet_v2_x0_5")


def case_squeezenet():
    return network("squeezenet1_1", dropout=0.0)


def case_efficientnet():
    return network("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0)


def case_vit():
    model = torchvision.models.VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=7)
    return train(double(model), tensor(2, 3, 32, 32))


def case_segmentation():
    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, num_classes=4)
    return train(double(model), tensor(2, 3, 64, 64))


def case_features():
    from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

    model = double(torchvision.models.resnet18(num_classes=10)).eval()
    names = get_graph_node_names(model)[1]
    extractor = create_feature_extractor(model, {"layer2": "middle", "avgpool": "pooled"})
    return [names, extractor(tensor(1, 3, 64, 64))]


def case_transforms():
    image = uniform(3, 20, 24)
    found = [
        v2.functional.resize(image, [10, 16], antialias=False),
        v2.functional.horizontal_flip(image),
        v2.functional.normalize(image, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
        v2.functional.adjust_contrast(image, 1.7),
        v2.functional.adjust_saturation(image, 0.3),
        v2.functional.gaussian_blur(image, [3, 5], [1.0, 1.5]),
        v2.functional.rotate(image, 30.0),
        v2.functional.perspective(image, [[0, 0], [23, 0], [23, 19], [0, 19]], [[1, 2], [20, 1], [22, 18], [2, 17]]),
        v2.Compose([v2.CenterCrop(16), v2.Pad(2), v2.Grayscale()])(image),
    ]
    return found


def case_boxes():
    from torchvision import ops

    corners = uniform(6, 2, high=50)
    boxes = torch.cat([corners, corners + uniform(6, 2, seed=1, low=5, high=60)], 1).requires_grad_()
    other = boxes.detach() + 3
    loss = ops.generalized_box_iou_loss(boxes, other).sum() + ops.complete_box_iou_loss(boxes, other).sum()
    loss = loss + ops.sigmoid_focal_loss(boxes / 50, (other > 30).double(), reduction="sum")
    loss.backward()
    return [ops.box_iou(boxes, other), ops.box_area(boxes), ops.box_convert(boxes, "xyxy", "cxcywh"), loss, boxes.grad]


def case_detection():
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=3, box_detections_per_img=5
    )
    model = double(model)
    target = {"boxes": torch.tensor([[5.0, 6.0, 40.0, 50.0]]), "labels": torch.tensor([1])}
    return model([uniform(3, 64, 64)], [target])["loss_objectness"]


def case_loss_of_classes():
    model = double(torchvision.models.alexnet(num_classes=6, dropout=0.0))
    labels = integers(2, below=6)
    return train(model, tensor(2, 3, 64, 64), loss=lambda out: torch.nn.functional.cross_entropy(out, labels, label_smoothing=0.1))
