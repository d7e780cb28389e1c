"""torch.__future__: switches of how modules are converted; stored, and without effect."""

from __future__ import annotations

_settings = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Stores the setting: conversions always make new parameters here."""
    _settings["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set."""
    return _settings["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Stores the setting."""
    _settings["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """What was set."""
    return _settings["swap"]
