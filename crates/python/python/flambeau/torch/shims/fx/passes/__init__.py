"""torch.fx.passes."""
