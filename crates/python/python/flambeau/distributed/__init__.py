"""Training on several processes, with PyTorch's names. `python -m flambeau.distributed.run` starts them."""

from __future__ import annotations

from flambeau.distributed.collectives import *  # noqa: F403
from flambeau.distributed.errors import *  # noqa: F403
from flambeau.distributed.groups import *  # noqa: F403
from flambeau.distributed.objects import *  # noqa: F403
from flambeau.distributed.stores import *  # noqa: F403
