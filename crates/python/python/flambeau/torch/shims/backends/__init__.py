"""Modules of torch.backends."""
