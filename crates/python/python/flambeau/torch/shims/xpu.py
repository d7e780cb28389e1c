"""torch.xpu: there is no device of this kind."""

from __future__ import annotations

from flambeau.torch.shims.devices import *  # noqa: F403
