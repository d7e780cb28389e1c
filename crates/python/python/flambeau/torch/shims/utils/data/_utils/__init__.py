"""Modules of torch.utils.data._utils."""
