"""Modules of torch.nn."""
