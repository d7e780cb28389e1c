"""torch.jit.annotations: names for annotations, which are Python's own."""

from __future__ import annotations

from typing import Any as Any, Dict as Dict, List as List, Optional as Optional, Tuple as Tuple, Union as Union

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List
