"""Graphs of `flambeau.cuda`: work that is captured once and launched many times."""

from __future__ import annotations

import flambeau
from flambeau import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

# PyTorch's modes say which calls of other threads are errors during a capture; here a capture is never affected by those.
_MODES = ("global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Whether this thread captures a graph on its current device."""
    return _flambeau._cuda_is_capturing()


def graph_pool_handle() -> _flambeau._CudaGraphPool:
    """Memory for graphs of the current device, for those that are to share it."""
    return _flambeau._CudaGraphPool(flambeau.cuda.current_device())


class CUDAGraph:
    """Work of a thread on a device that is captured, and launched again and again.

    All work of the thread on the device is captured, in whatever stream it would run. Between `capture_begin` and `capture_end` nothing runs:
    results have values after `replay`. What needs a value, such as `item`, and random numbers are errors.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        if keep_graph:
            raise RuntimeError("graphs of the driver that can be changed are not implemented")
        self._graph = _flambeau._CudaGraph()

    def capture_begin(self, pool: _flambeau._CudaGraphPool | None = None, capture_error_mode: str = "global") -> None:
        """Captures what this thread does on the current device from now on. Memory comes from `pool`, or from one of its own."""
        if capture_error_mode not in _MODES:
            raise ValueError(f"expected one of {_MODES} as capture_error_mode but got {capture_error_mode!r}")
        self._graph.capture_begin(flambeau.cuda.current_device(), pool)

    def capture_end(self) -> None:
        """Ends the capture, after which the graph can be launched."""
        self._graph.capture_end()

    def replay(self) -> None:
        """Launches the work in the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Drops the work, and ends a capture without a graph."""
        self._graph.reset()

    def pool(self) -> _flambeau._CudaGraphPool:
        """The memory of the graph, for another one that is to share it."""
        found = self._graph.pool()
        if found is None:
            raise RuntimeError("expected a graph whose capture has ended successfully")
        return found


class graph:
    """Captures the work of a block: `with flambeau.cuda.graph(g): y = model(x)`. If the block fails, the capture is given up."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: _flambeau._CudaGraphPool | None = None,
        stream: flambeau.cuda.Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.stream_ctx = flambeau.cuda.stream(stream)
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        flambeau.cuda.synchronize()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, kind: Any, *raised: object) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph.reset()
        finally:
            self.stream_ctx.__exit__()


def _tensors(value: Any) -> list[flambeau.Tensor]:
    """The tensors of nested tuples, lists and dicts, in their order."""
    if isinstance(value, flambeau.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    raise TypeError(f"expected tensors, or tuples, lists and dicts of tensors, but got a value of type {type(value).__name__}")


def _rebuilt(like: Any, tensors: list[flambeau.Tensor]) -> Any:
    """The same nest with other tensors, which are taken from the front of the list."""
    if isinstance(like, flambeau.Tensor):
        return tensors.pop(0)
    if isinstance(like, dict):
        return {name: _rebuilt(item, tensors) for name, item in like.items()}
    items = [_rebuilt(item, tensors) for item in like]
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)


class _Captured:
    """A function as two graphs, forward and backward, with the tensors that they read and write."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], allow_unused: bool) -> None:
        self.function = function
        self.arguments = arguments
        self.allow_unused = allow_unused
        self.parameters: list[flambeau.Tensor] = []
        if isinstance(function, flambeau.nn.Module):
            self.parameters.extend(function.parameters())
        self.inputs = _tensors(arguments) + self.parameters
        self.count = len(self.inputs) - len(self.parameters)
        self.differentiable = [i for i, tensor in enumerate(self.inputs) if tensor.requires_grad]
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.result: Any = None
        self.outputs: list[flambeau.Tensor] = []
        self.output_gradients: list[flambeau.Tensor | None] = []
        self.input_gradients: list[flambeau.Tensor | None] = []

    def gradients(self, outputs: list[flambeau.Tensor], of_outputs: list[flambeau.Tensor]) -> tuple[flambeau.Tensor | None, ...]:
        inputs = [self.inputs[i] for i in self.differentiable]
        return flambeau.autograd.grad(outputs, inputs, of_outputs, allow_unused=self.allow_unused)

    def warm_up(self, times: int) -> None:
        """Has all be there that the first calls make, such as compiled kernels."""
        for _ in range(times):
            outputs = [out for out in _tensors(self.function(*self.arguments)) if out.requires_grad]
            if outputs:
                self.gradients(outputs, [flambeau.empty_like(out) for out in outputs])

    def capture_forward(self, pool: Any) -> None:
        with graph(self.forward, pool):
            self.result = self.function(*self.arguments)
        self.outputs = _tensors(self.result)

    def capture_backward(self, pool: Any) -> None:
        self.output_gradients = [flambeau.empty_like(out) if out.requires_grad else None for out in self.outputs]
        self.input_gradients = [None] * len(self.inputs)
        outputs = [out for out in self.outputs if out.requires_grad]
        if not outputs:
            return
        of_outputs = [gradient for gradient in self.output_gradients if gradient is not None]
        with graph(self.backward, pool):
            found = self.gradients(outputs, of_outputs)
        for i, gradient in zip(self.differentiable, found):
            self.input_gradients[i] = gradient

    def callable(self) -> Callable[..., Any]:
        """The function that launches the graphs."""
        of = self

        class Launch(flambeau.autograd.Function):
            """The graphs as one operator."""

            @staticmethod
            def forward(ctx: Any, *inputs: flambeau.Tensor) -> tuple[flambeau.Tensor, ...]:
                for static, given in zip(of.inputs[: of.count], inputs):
                    if static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                of.forward.replay()
                results = tuple(out.detach() for out in of.outputs)
                ctx.mark_non_differentiable(*[new for new, out in zip(results, of.outputs) if not out.requires_grad])
                return results

            @staticmethod
            def backward(ctx: Any, *gradients: flambeau.Tensor) -> tuple[flambeau.Tensor | None, ...]:
                for static, given in zip(of.output_gradients, gradients):
                    if static is not None and static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                of.backward.replay()
                return tuple(None if gradient is None else gradient.detach() for gradient in of.input_gradients)

        def launch(*arguments: Any) -> Any:
            given = _tensors(arguments)
            if len(given) != of.count:
                raise TypeError(f"expected {of.count} tensors, as in the sample, but got {len(given)}")
            return _rebuilt(of.result, list(Launch.apply(*given, *of.parameters)))

        return launch


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: _flambeau._CudaGraphPool | None = None,
) -> Any:
    """Functions or modules that launch graphs of their forward and backward passes, for arguments as those of the sample.

    With a tuple of callables, `sample_args` has a tuple for each; they are called, and their gradients computed, in that order. Results and
    gradients are in memory of the graphs, which the next call overwrites. A module keeps its class: in the mode of training that it has now,
    its calls launch the graphs, and in the other one they do not.
    """
    several = isinstance(callables, tuple)
    functions = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    for function in functions:
        if isinstance(function, flambeau.nn.Module) and any(buffer.requires_grad for buffer in function.buffers()):
            raise RuntimeError("expected a module whose buffers require no gradient")
    captured = [_Captured(function, tuple(sample), allow_unused_input) for function, sample in zip(functions, samples)]
    shared = graph_pool_handle() if pool is None else pool
    for of in captured:
        of.warm_up(num_warmup_iters)
    for of in captured:
        of.capture_forward(shared)
    for of in reversed(captured):
        of.capture_backward(shared)
    made = tuple(_installed(of) for of in captured)
    return made if several else made[0]


def _installed(of: _Captured) -> Any:
    """The function that launches, or the module, whose calls launch in the mode that it has now."""
    launch = of.callable()
    module = of.function
    if not isinstance(module, flambeau.nn.Module):
        return launch
    training, original = module.training, module.forward

    def forward(*arguments: Any) -> Any:
        return launch(*arguments) if module.training == training else original(*arguments)

    module.forward = forward  # type: ignore[method-assign]
    return module
