"""Special functions, under the names of `torch.special`."""

from .._flambeau import erf as erf
from .._flambeau import erfc as erfc
from .._flambeau import exp2 as exp2
from .._flambeau import expm1 as expm1
from .._flambeau import log1p as log1p
from .._flambeau import log_softmax as log_softmax
from .._flambeau import logsumexp as logsumexp
from .._flambeau import round as round
from .._flambeau import sigmoid as expit
from .._flambeau import softmax as softmax

__all__ = ["erf", "erfc", "exp2", "expit", "expm1", "log1p", "log_softmax", "logsumexp", "round", "softmax"]
