"""torchvision: networks with a training step, transforms of images, and the operators that are Python."""

import torch
import torchvision
from torchvision.transforms import v2

from harness import double, integers, tensor, train, uniform

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
        v2.functional.resize(image, [9, 30]),
        v2.functional.resize(image, [7], interpolation=v2.InterpolationMode.BICUBIC),
        v2.functional.resize(integers(3, 20, 24, below=256).to(torch.uint8), [13], interpolation=v2.InterpolationMode.BICUBIC),
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


def case_operators():
    from torchvision import ops

    x = tensor(2, 4, 11, 13).requires_grad_()
    corners = uniform(7, 2, high=14)
    boxes = torch.cat([corners, corners + uniform(7, 2, seed=1, low=-1, high=12)], 1)
    regions = torch.cat([torch.tensor([[0.0], [1], [0], [1], [1], [0], [0]]), boxes], 1)
    found = [
        ops.nms(boxes * 2, uniform(7, seed=2), 0.2),
        ops.batched_nms(boxes, uniform(7, seed=2), torch.tensor([0, 1, 0, 0, 1, 1, 0]), 0.1),
        ops.roi_align(x, regions, (3, 2), 0.7, 2, False),
        ops.roi_align(x, regions, 3, 0.9, -1, True),
        ops.roi_pool(x, regions, (2, 3), 0.8),
    ]
    layer = double(ops.DeformConv2d(4, 6, 3, stride=2, padding=1, groups=2))
    offset = tensor(2, 36, 6, 7, scale=1.5).requires_grad_()
    mask = uniform(2, 18, 6, 7).requires_grad_()
    found += [layer(x, offset, mask), ops.deform_conv2d(x, offset[:, :18], tensor(3, 4, 3, 3), stride=2, padding=1)]
    sum((y * y).sum() for y in found if y.is_floating_point()).backward()
    return [found, x.grad, offset.grad, mask.grad, [parameter.grad for parameter in layer.parameters()]]


def case_detection():
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=3, box_detections_per_img=5, box_score_thresh=0.0
    )
    return double(model).eval()([uniform(3, 64, 64)])


def case_loss_of_classes():
    model = double(torchvision.models.alexnet(num_classes=6, dropout=0.0))
    labels = integers(2, below=6)
    return train(model, tensor(2, 3, 64, 64), loss=lambda out: torch.nn.functional.cross_entropy(out, labels, label_smoothing=0.1))
