"""e3nn: spherical harmonics, rotations and linear layers of irreducible representations."""

import torch
from e3nn import o3

from harness import double, tensor, train


def case_harmonics():
    return o3.spherical_harmonics([0, 1, 2, 3], tensor(5, 3), normalize=True)


def case_rotations():
    angles = [torch.tensor(x) for x in (0.3, 0.7, -0.4)]
    return [o3.angles_to_matrix(*angles), o3.wigner_3j(1, 1, 2), o3.Irreps("1x0e + 2x1o").D_from_angles(*angles)]


def case_linear():
    return train(double(o3.Linear("2x0e + 1x1o", "3x0e + 2x1o")), tensor(4, 5))


def case_product():
    return train(double(o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 1x1o")), tensor(4, 5), tensor(4, 4, seed=1))
