"""Modules of torch.utils."""
