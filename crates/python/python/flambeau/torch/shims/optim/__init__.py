"""Modules of torch.optim."""
