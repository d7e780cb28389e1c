"""Writes the names of PyTorch's modules as `names.txt` of flambeau.torch has them: run with an interpreter that has PyTorch.

    python list_names.py crates/python/python/flambeau/torch/names.txt tests/compat/documented.txt

The second file has the names that the documented modules export, which `table.py` counts.
"""

import importlib
import inspect
import pkgutil
import sys
import types
import warnings

import torch

# Modules whose names only PyTorch's own code uses, or that cannot be imported without side effects.
SKIPPED = (
    "torch.testing._internal",
    "torch._decomp",
    "torch._export",
    "torch._functorch._aot_autograd",
    "torch._inductor.",
    "torch._native",
    "torch._numpy",
    "torch._meta_registrations",
    "torch._dynamo.bytecode_transformation",
    "torch._dynamo.convert_frame",
    "torch._dynamo.guards",
    "torch._dynamo.output_graph",
    "torch._dynamo.polyfills",
    "torch._dynamo.side_effects",
    "torch._dynamo.source",
    "torch._dynamo.symbolic_convert",
    "torch._dynamo.variables",
    "torch._functorch.partitioners",
    "torch._C._dynamo",
    "torch._subclasses.complex_tensor",
    "torch._subclasses.fake_impls",
    "torch._prims",
    "torch._refs",
    "torch._strobelight",
    "torch._vendor",
    "torch.ao.ns",
    "torch.backends._",
    "torch.contrib",
    "torch.distributed.benchmarks",
    "torch.distributed.pipelining.",
    "torch.onnx._internal",
    "torch.onnx.ops",
    "torch.package._",
    "torch.sparse._",
    "torch.utils._sympy",
    "torch.utils.benchmark.examples",
    "torch.utils.bottleneck",
    "torch.utils.hipify",
    "torch.utils.jit",
    "torch.utils.viz._",
    "torch.utils.model_dump",
    "torch.utils._strobelight",
    "torch.utils.data.datapipes._",
    "torch.csrc",
    "torch.bin",
    "torch.include",
    "torch.lib",
    "torch.share",
    "torchgen",
)
# Private names that packages are known to use where the module's other private names are left out.
PRIVATE = {
    "torch": "_assert _check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_tensor_all_with _check_type "
    "_check_value _check_with _shape_as_tensor _assert_async _scaled_mm _grouped_mm _softmax_backward_data _nested_view_from_buffer "
    "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _segment_reduce _cast_Long _standard_gamma _sample_dirichlet "
    "_dirichlet_grad _make_per_tensor_quantized_tensor _weight_norm _is_functional_tensor",
}


def is_private(name):
    return any(part.startswith("_") for part in name.split(".")[1:])


def modules():
    """All modules of PyTorch that can be imported, but for those that are skipped."""
    found = ["torch", "torch._C"]
    skips = [s.rstrip(".") for s in SKIPPED if not s.endswith((".", "._"))]
    prefixes = [s for s in SKIPPED if s.endswith((".", "._"))]

    def is_skipped(name):
        return any(name == s or name.startswith(s + ".") for s in skips) or any(name.startswith(p) for p in prefixes)

    pending = [(torch.__path__, "torch.")]
    while pending:
        path, prefix = pending.pop()
        for info in pkgutil.iter_modules(path, prefix):
            if is_skipped(info.name) or info.name.endswith(".__main__"):
                continue
            try:
                module = importlib.import_module(info.name)
            except BaseException:
                continue
            found.append(info.name)
            if info.ispkg and hasattr(module, "__path__"):
                pending.append((module.__path__, info.name + "."))
    # Modules that C++ registers, and classes that act as modules.
    found += [name for name, module in sys.modules.items() if isinstance(module, types.ModuleType) and name.startswith("torch.")
              and not is_skipped(name) and name not in found and name.count(".") <= 3]
    return sorted(set(found))


def kind(value):
    if inspect.isclass(value):
        return "c"
    return "f" if callable(value) else "v"


def is_own(module, name, value, exported):
    """Whether a name is the module's, and not one of something that it imports from elsewhere."""
    if isinstance(value, types.ModuleType) or name.startswith("__"):
        return False
    if name in exported or name in PRIVATE.get(module.__name__, "").split():
        return True
    if name.startswith("_") and (module.__name__ in ("torch", "torch.Tensor") or not name[1:2].isalpha()):
        return name.startswith("_foreach_")
    owner = getattr(value, "__module__", None)
    if not isinstance(owner, str):
        return not name.startswith("_")
    return owner.startswith("torch") or module.__name__.startswith("torch._C")


def names(module):
    exported = getattr(module, "__all__", ())
    exported = set(exported) if isinstance(exported, (list, tuple)) else set()
    by_kind = {"c": [], "f": [], "v": []}
    for name in sorted({*vars(module), *exported}):
        try:
            value = getattr(module, name)
        except BaseException:
            continue
        if is_own(module, name, value, exported):
            by_kind[kind(value)].append(name)
    return by_kind


def write(file, name, by_kind):
    file.write(f"m {name}\n")
    for kind, found in by_kind.items():
        if found:
            file.write(f"{kind} {' '.join(found)}\n")


def main(path):
    warnings.simplefilter("ignore")
    with open(path, "w", encoding="ascii") as file:
        for name in modules():
            try:
                module = importlib.import_module(name)
            except BaseException:
                continue
            if isinstance(module, types.ModuleType):
                write(file, name, names(module))
        write(file, "torch.Tensor", {"f": [n for n in dir(torch.Tensor) if not n.startswith("_")]})


# The modules that PyTorch's documentation has pages for.
DOCUMENTED = """
torch torch.Tensor torch.accelerator torch.amp torch.autograd torch.autograd.forward_ad torch.autograd.functional
torch.autograd.graph torch.backends.cuda torch.backends.cudnn torch.backends.mps torch.compiler torch.cpu torch.cuda
torch.distributed torch.distributions torch.distributions.constraints torch.distributions.transforms torch.export torch.fft
torch.func torch.futures torch.fx torch.hub torch.jit torch.library torch.linalg torch.masked torch.mps
torch.multiprocessing torch.nested torch.nn torch.nn.attention torch.nn.attention.flex_attention torch.nn.functional
torch.nn.init torch.nn.utils torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune
torch.nn.utils.rnn torch.nn.utils.stateless torch.onnx torch.optim torch.optim.lr_scheduler torch.optim.swa_utils
torch.overrides torch.package torch.profiler torch.quasirandom torch.random torch.serialization torch.signal.windows
torch.sparse torch.special torch.testing torch.utils.benchmark torch.utils.checkpoint torch.utils.cpp_extension
torch.utils.data torch.utils.data.distributed torch.utils.dlpack torch.utils.model_zoo torch.utils.tensorboard torch.xpu
""".split()


def exported(name):
    """The names that a module exports; the public ones where it does not say."""
    if name == "torch.Tensor":
        return [n for n in dir(torch.Tensor) if not n.startswith("_")]
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    found = listed if isinstance(listed, (list, tuple)) else [n for n in dir(module) if is_own(module, n, getattr(module, n), set())]
    return sorted({n for n in found if not n.startswith("_") and not isinstance(getattr(module, n, None), types.ModuleType)})


def write_documented(path):
    with open(path, "w", encoding="ascii") as file:
        for name in DOCUMENTED:
            try:
                names_there = exported(name)
            except ImportError:
                continue
            file.write(f"{name}: {' '.join(names_there)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
    write_documented(sys.argv[2])
