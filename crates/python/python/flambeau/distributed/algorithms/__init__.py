"""Algorithms of distributed training."""
