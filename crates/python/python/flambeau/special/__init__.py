"""Special functions, under the names of `torch.special`."""

from .. import _flambeau

# Those that are functions of the package too.
_SHARED = {"expit": "sigmoid"} | {
    name: name
    for name in (
        "erf", "erfc", "exp2", "expm1", "log1p", "log_softmax", "logit", "logsumexp", "round", "sinc", "softmax", "xlogy",
    )  # fmt: skip
}

for _name, _target in _SHARED.items():
    globals()[_name] = getattr(_flambeau, _target)
for _name in dir(_flambeau._special):
    if _name.startswith("special_"):
        globals()[_name.removeprefix("special_")] = getattr(_flambeau._special, _name)

__all__ = sorted(name for name in globals() if not name.startswith("_"))
