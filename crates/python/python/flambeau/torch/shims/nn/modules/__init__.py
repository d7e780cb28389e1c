"""Modules of torch.nn.modules."""
