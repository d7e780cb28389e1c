"""Special functions, under the names of `torch.special`."""

from .. import _flambeau

# Those that are functions of the package too.
_SHARED = {
    "expit": "sigmoid",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
} | {
    name: name
    for name in (
        "digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "log1p", "log_softmax", "logit", "logsumexp", "polygamma",
        "round", "sinc", "softmax", "xlogy",
    )  # fmt: skip
}

for _name, _target in _SHARED.items():
    globals()[_name] = getattr(_flambeau, _target)
for _name in dir(_flambeau._special):
    if _name.startswith("special_"):
        globals()[_name.removeprefix("special_")] = getattr(_flambeau._special, _name)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    def __getattr__(name: str) -> Callable[..., _flambeau.Tensor]:
        """What the loops above have put here."""

__all__ = sorted(name for name in globals() if not name.startswith("_"))
