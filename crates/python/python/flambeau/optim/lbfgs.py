"""L-BFGS (Liu and Nocedal, 1989), with a line search that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Parameters

    Evaluate = Callable[[float], tuple[float, Tensor, float]]


class LBFGS(Optimizer):
    """Minimises by Newton's method, with curvature from the last `history_size` changes of the gradient.

    A step is up to `max_iter` iterations, and needs a closure that computes the loss and its gradients. All parameters are one group.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        defaults: dict[str, Any] = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) for p in self._params]
        return flambeau.cat(parts)

    def _move(self, length: float, direction: Tensor) -> None:
        """Moves all parameters along a direction."""
        offset = 0
        for param in self._params:
            param.add_(direction[offset : offset + param.numel()].view_as(param), alpha=length)
            offset += param.numel()

    def _restore(self, values: list[Tensor]) -> None:
        for param, value in zip(self._params, values):
            param.copy_(value)

    @flambeau.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Iterates until the gradient or the change is small enough, and returns the first loss."""
        if closure is None:
            raise RuntimeError("LBFGS: expected a closure that computes the loss and its gradients")
        run = _Run(self, flambeau.enable_grad()(closure))
        return run.minimize()


class _Run:
    """One step of the optimiser: up to `max_iter` iterations."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any]) -> None:
        self.optimizer, self.closure = optimizer, closure
        self.group = optimizer.param_groups[0]
        # PyTorch keeps the state of all parameters under the first one.
        self.state = optimizer.state[optimizer._params[0]]
        self.state.setdefault("func_evals", 0)
        self.state.setdefault("n_iter", 0)
        self.evaluations = 0

    def _count(self, evaluations: int) -> None:
        self.evaluations += evaluations
        self.state["func_evals"] += evaluations

    def minimize(self) -> Any:
        """The iterations."""
        group, state = self.group, self.state
        first_loss = self.closure()
        loss = float(first_loss)
        self._count(1)
        grad = self.optimizer._flat_grad()
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(grad)
            state["prev_flat_grad"], state["prev_loss"] = grad.clone(), loss
            rate = float(group["lr"])
            length = min(1.0, 1.0 / float(grad.abs().sum())) * rate if state["n_iter"] == 1 else rate
            slope = float(grad.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            before = loss
            loss, grad, length = self._advance(direction, length, loss, grad, slope, iteration)
            state["d"], state["t"] = direction, length
            if iteration == group["max_iter"] or self.evaluations >= group["max_eval"]:
                break
            if float(grad.abs().max()) <= group["tolerance_grad"]:
                break
            if float((direction * length).abs().max()) <= group["tolerance_change"]:
                break
            if abs(loss - before) < group["tolerance_change"]:
                break
        return first_loss

    def _advance(
        self, direction: Tensor, length: float, loss: float, grad: Tensor, slope: float, iteration: int
    ) -> tuple[float, Tensor, float]:
        """Moves along the direction: loss, gradient and length afterwards."""
        search = self.group["line_search_fn"]
        if search is None:
            self.optimizer._move(length, direction)
            if iteration != self.group["max_iter"]:
                loss = float(self.closure())
                grad = self.optimizer._flat_grad()
                self._count(1)
            return loss, grad, length
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [param.clone() for param in self.optimizer._params]

        def evaluate(at: float) -> tuple[float, Tensor, float]:
            self.optimizer._move(at, direction)
            found = float(self.closure())
            slope_there = self.optimizer._flat_grad()
            self.optimizer._restore(start)
            return found, slope_there, float(slope_there.dot(direction))

        found = WolfeSearch(evaluate, float(direction.abs().max()), self.group["tolerance_change"])
        loss, grad, length = found.search(length, loss, grad, slope)
        self.optimizer._move(length, direction)
        self._count(found.evaluations)
        return loss, grad, length

    def _direction(self, grad: Tensor) -> Tensor:
        """Minus the gradient times the estimate of the inverse Hessian: the two loops of Nocedal, 1980."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        change, moved = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = float(change.dot(moved))
        if curvature > 1e-10:
            for name, value in (("old_dirs", change), ("old_stps", moved), ("ro", 1.0 / curvature)):
                state[name].append(value)
                del state[name][: -self.group["history_size"]]
            state["H_diag"] = curvature / float(change.dot(change))
        direction = grad.neg()
        weights = []
        history = list(zip(state["old_dirs"], state["old_stps"], state["ro"]))
        for change, moved, inverse in reversed(history):
            weight = float(moved.dot(direction)) * inverse
            weights.append(weight)
            direction.add_(change, alpha=-weight)
        direction.mul_(state["H_diag"])
        for (change, moved, inverse), weight in zip(history, reversed(weights)):
            direction.add_(moved, alpha=weight - float(change.dot(direction)) * inverse)
        return direction


def cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Where the cubic polynomial with these values and slopes is lowest, within the bounds."""
    low, high = bounds or (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


class WolfeSearch:
    """A line search (Nocedal and Wright, 2006, algorithms 3.5 and 3.6): first an interval with a good length, then the length."""

    def __init__(self, evaluate: Evaluate, scale: float, tolerance: float, c1: float = 1e-4, c2: float = 0.9) -> None:
        self.evaluate, self.scale, self.tolerance, self.c1, self.c2 = evaluate, scale, tolerance, c1, c2
        self.evaluations = 0
        self.rest = 25

    def _at(self, length: float) -> tuple[float, float, Tensor, float]:
        loss, grad, slope = self.evaluate(length)
        self.evaluations += 1
        return length, loss, grad, slope

    def search(self, length: float, loss: float, grad: Tensor, slope: float) -> tuple[float, Tensor, float]:
        """Loss, gradient and length that satisfy the conditions, or the best that were found."""
        self.loss, self.slope = loss, slope
        interval, done = self._bracket(length, (0.0, loss, grad.clone(), slope))
        if not done and len(interval) > 1:
            interval = self._zoom(interval)
        best = min(interval, key=lambda point: point[1])
        return best[1], best[2], best[0]

    def _falls(self, point: Any) -> bool:
        return bool(point[1] <= self.loss + self.c1 * point[0] * self.slope)

    def _is_flat(self, point: Any) -> bool:
        return bool(abs(point[3]) <= -self.c2 * self.slope)

    def _bracket(self, length: float, before: Any) -> tuple[list[Any], bool]:
        """Two points with a good length between them, or one that is good itself."""
        point = self._at(length)
        for iteration in range(self.rest):
            self.rest -= 1
            if not self._falls(point) or (iteration > 0 and point[1] >= before[1]):
                return [before, point], False
            if self._is_flat(point):
                return [point], True
            if point[3] >= 0:
                return [before, point], False
            low = point[0] + 0.01 * (point[0] - before[0])
            following = cubic_minimum(before[0], before[1], before[3], point[0], point[1], point[3], (low, point[0] * 10))
            before, point = point, self._at(following)
        return [(0.0, self.loss, before[2], self.slope), point], False

    def _zoom(self, interval: list[Any]) -> list[Any]:
        """Narrows the interval."""
        stuck = False
        low, high = sorted(interval, key=lambda point: point[1])
        while self.rest > 0:
            self.rest -= 1
            left, right = min(low[0], high[0]), max(low[0], high[0])
            if (right - left) * self.scale < self.tolerance:
                break
            at = cubic_minimum(interval[0][0], interval[0][1], interval[0][3], interval[1][0], interval[1][1], interval[1][3])
            margin = 0.1 * (right - left)
            if min(right - at, at - left) < margin:
                # Too near an end twice in a row, or beyond it: go into the interval by a tenth of it.
                if stuck or at >= right or at <= left:
                    at = right - margin if abs(at - right) < abs(at - left) else left + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            point = self._at(at)
            if not self._falls(point) or point[1] >= low[1]:
                high = point
            else:
                if self._is_flat(point):
                    return [point]
                if point[3] * (high[0] - low[0]) >= 0:
                    high = low
                low = point
            if high[1] < low[1]:
                low, high = high, low
            interval = [low, high]
        return [low, high]
