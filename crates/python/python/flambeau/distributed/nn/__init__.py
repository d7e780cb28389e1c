"""Collectives with derivatives."""

from __future__ import annotations

from flambeau.distributed.nn.functional import *  # noqa: F403
