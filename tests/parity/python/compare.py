"""What two results, or two refusals, differ in: a list of (kind, words), empty where they agree."""

import torch

import flambeau
from convert import tensor_there

# Errors that count as the same: PyTorch raises RuntimeError where Python would raise a narrower class, and vice versa.
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, ZeroDivisionError, OverflowError,
            AttributeError, AssertionError)


def steps(tensor):
    """Strides of the dimensions that have any."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]


def values(theirs, ours, computed=None):
    """In what the elements differ, by PyTorch's tolerances for the type they were computed in, where that is not their own."""
    theirs, ours = theirs.detach().to_dense(), tensor_there(ours)
    if theirs.dtype == torch.complex32 == ours.dtype:
        theirs, ours = (torch.view_as_real(part) for part in (theirs, ours))
    if computed is not None and computed.is_floating_point and theirs.is_floating_point() and computed.itemsize < theirs.itemsize:
        theirs, ours = theirs.to(computed), ours.to(computed)
    try:
        torch.testing.assert_close(ours, theirs, equal_nan=True, check_stride=False)
    except AssertionError as error:
        return about_nan(theirs, ours) + " ".join(str(error).split())[:200]
    return None


def about_nan(theirs, ours):
    """Words for results that differ in nothing but that PyTorch's are NaN."""
    if not theirs.is_floating_point() or theirs.dtype != ours.dtype or theirs.shape != ours.shape:
        return ""
    apart = ~torch.isclose(theirs, ours, rtol=1e-2, equal_nan=True)
    if not bool(apart.any()) or not bool(theirs[apart].isnan().all()):
        return ""
    return "NaN there, 0 here: " if bool((ours[apart] == 0).all()) else "NaN there, a number here: "


def of_tensors(theirs, ours, where, has_values=True, computed=None):
    if not isinstance(ours, flambeau.Tensor):
        return [("structure", f"{where}: a tensor there, {type(ours).__name__} here")]
    found = []
    if tuple(theirs.shape) != tuple(ours.shape):
        return [("sizes", f"{where}: {tuple(theirs.shape)} there, {tuple(ours.shape)} here")]
    if str(theirs.dtype).split(".")[1] != str(ours.dtype).split(".")[1]:
        return [("type", f"{where}: {theirs.dtype} there, {ours.dtype} here")]
    if str(theirs.layout).split(".")[1] != str(ours.layout).split(".")[1]:
        return [("structure", f"{where}: {theirs.layout} there, {ours.layout} here")]
    if theirs.layout == torch.strided and theirs.numel() and steps(theirs) != steps(ours):
        found.append(("strides", f"{where}: sizes {tuple(theirs.shape)}, {theirs.stride()} there, {tuple(ours.stride())} here"))
    if theirs.requires_grad != ours.requires_grad:
        found.append(("requires_grad", f"{where}: {theirs.requires_grad} there, {ours.requires_grad} here"))
    elif theirs.is_leaf != ours.is_leaf:
        found.append(("is_leaf", f"{where}: {theirs.is_leaf} there, {ours.is_leaf} here"))
    words = values(theirs, ours, computed) if has_values else None
    return found + ([("values", f"{where}: {words}")] if words else [])


def results(theirs, ours, has_values=True, where="result", computed=()):
    """Everything two results differ in."""
    if isinstance(theirs, torch.Tensor):
        return of_tensors(theirs, ours, where, has_values, *computed[:1])
    if isinstance(theirs, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return [("structure", f"{where}: {len(theirs)} values there, {ours if not hasattr(ours, '__len__') else len(ours)} here")]
        if isinstance(theirs, list) != isinstance(ours, list):
            return [("structure", f"{where}: {type(theirs).__name__} there, {type(ours).__name__} here")]
        fields = getattr(type(theirs), "_fields", None) or [n for n in dir(type(theirs)) if type(getattr(type(theirs), n)).__name__ == "member_descriptor"]
        missing = [name for name in fields if not hasattr(ours, name)]
        if missing:
            return [("structure", f"{where}: fields {missing} are missing")]
        pairs = enumerate(zip(theirs, ours))
        return [found for i, (a, b) in pairs for found in results(a, b, has_values, f"{where}[{i}]", computed[i : i + 1])]
    if isinstance(theirs, (torch.dtype, torch.device, torch.layout)):
        same = str(theirs).split(".")[-1] == str(ours).split(".")[-1]
    elif isinstance(theirs, float) and isinstance(ours, float):
        same = abs(theirs - ours) <= 1e-5 * abs(theirs) + 1e-8 or theirs == ours or (theirs != theirs and ours != ours)
    else:
        same = type(theirs) is type(ours) and (theirs == ours or not has_values)
    return [] if same else [("values", f"{where}: {theirs!r} there, {ours!r} here")]


def refusals(theirs, ours):
    """Whether both raised, and the same: a subclass of theirs will do."""
    said = lambda error: f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if theirs is None and ours is None:
        return []
    if theirs is None:
        return [("refuses", said(ours))]
    if ours is None:
        return [("accepts", f"there {said(theirs)}")]
    if not isinstance(ours, type(theirs)) and not isinstance(theirs, type(ours)):
        return [("exception", f"there {said(theirs)}; here {said(ours)}")]
    return []
