"""kornia: filters, colours, geometry and losses, with gradients."""

import kornia
import torch

from harness import tensor, uniform


def differentiated(functions):
    x = uniform(2, 3, 12, 14, low=0.05, high=0.95).requires_grad_()
    found = {name: function(x) for name, function in functions.items()}
    sum((y * y).sum() for y in found.values()).backward()
    return [found, x.grad]


def case_filters():
    return differentiated(
        {
            "gaussian": lambda x: kornia.filters.gaussian_blur2d(x, (3, 5), (1.0, 1.5)),
            "sobel": kornia.filters.sobel,
            "median": lambda x: kornia.filters.median_blur(x, (3, 3)),
            "laplacian": lambda x: kornia.filters.laplacian(x, 3),
            "unsharp": lambda x: kornia.filters.unsharp_mask(x, (3, 3), (1.0, 1.0)),
            "gradient": kornia.filters.spatial_gradient,
        }
    )


def case_colours():
    return differentiated(
        {
            "grey": kornia.color.rgb_to_grayscale,
            "hsv": kornia.color.rgb_to_hsv,
            "lab": kornia.color.rgb_to_lab,
            "ycbcr": kornia.color.rgb_to_ycbcr,
        }
    )


def case_geometry():
    angle = torch.tensor([20.0, -35.0])
    return differentiated(
        {
            "rotated": lambda x: kornia.geometry.rotate(x, angle),
            "scaled": lambda x: kornia.geometry.scale(x, torch.tensor([[1.2, 0.8]] * 2)),
            "sheared": lambda x: kornia.geometry.shear(x, torch.tensor([[0.1, 0.2]] * 2)),
            "flipped": kornia.geometry.hflip,
        }
    )


def case_losses():
    x = uniform(1, 3, 12, 12).requires_grad_()
    y = uniform(1, 3, 12, 12, seed=1)
    value = kornia.losses.ssim_loss(x, y, 5) + kornia.losses.psnr_loss(x, y, 1.0) + kornia.losses.total_variation(x).sum()
    value.backward()
    return [value, x.grad]


def case_rotations():
    axis = tensor(4, 3)
    matrix = kornia.geometry.axis_angle_to_rotation_matrix(axis)
    return [matrix, kornia.geometry.rotation_matrix_to_axis_angle(matrix), kornia.geometry.rotation_matrix_to_quaternion(matrix)]
