"""lpips: distances between images by the features of a network, with its gradient."""

import lpips

from harness import double, uniform


def case_distance():
    model = double(lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False, lpips=True))
    x = uniform(2, 3, 64, 64, low=-1).requires_grad_()
    value = model(x, uniform(2, 3, 64, 64, seed=1, low=-1))
    value.sum().backward()
    return [value, x.grad]
