"""Modules of torch.nn.attention."""
