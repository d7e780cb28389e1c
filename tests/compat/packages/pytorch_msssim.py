"""pytorch-msssim: the similarity of images at several scales, with its gradient."""

import pytorch_msssim

from harness import uniform

# The window is in single precision, and small covariances are differences of means.
TOLERANCE = 2e-4


def case_similarity():
    x, y = uniform(1, 3, 180, 180).requires_grad_(), uniform(1, 3, 180, 180, seed=1)
    value = pytorch_msssim.ssim(x, y, data_range=1.0) + pytorch_msssim.ms_ssim(x, y, data_range=1.0)
    value.backward()
    return [value, x.grad]
