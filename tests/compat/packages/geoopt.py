"""geoopt: operations of manifolds, and Riemannian optimisers."""

import geoopt
import torch

from harness import tensor


def case_ball():
    ball = geoopt.PoincareBall(c=0.7)
    x, y = (ball.expmap0(0.4 * tensor(4, 3, seed=seed)) for seed in (0, 1))
    return [x, ball.mobius_add(x, y), ball.dist(x, y), ball.logmap(x, y), ball.transp(x, y, tensor(4, 3, seed=2))]


def case_optimizer():
    found = {}
    for kind in ("RiemannianSGD", "RiemannianAdam"):
        target = geoopt.PoincareBall().projx(0.3 * tensor(3))
        point = geoopt.ManifoldParameter(torch.zeros(3), manifold=geoopt.PoincareBall())
        optimizer = getattr(geoopt.optim, kind)([point], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            point.manifold.dist(point, target).square().backward()
            optimizer.step()
        found[kind] = point.detach()
    return found


def case_sphere():
    sphere = geoopt.Sphere()
    x = sphere.projx(tensor(4, 3))
    tangent = sphere.proju(x, tensor(4, 3, seed=1))
    return [x, tangent, sphere.expmap(x, tangent), sphere.inner(x, tangent)]


def case_stiefel():
    stiefel = geoopt.Stiefel()
    x = stiefel.projx(tensor(5, 2))
    return [x @ x.transpose(-1, -2), stiefel.proju(x, tensor(5, 2, seed=1))]


def case_negated():
    point = geoopt.ManifoldParameter(tensor(3), manifold=geoopt.Euclidean())
    return [-point, point + 1, abs(point)]
