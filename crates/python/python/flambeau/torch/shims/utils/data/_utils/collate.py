"""torch.utils.data._utils.collate: expressions that packages use."""

from __future__ import annotations

import re

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
