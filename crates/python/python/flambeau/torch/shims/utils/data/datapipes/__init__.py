"""torch.utils.data.datapipes."""
