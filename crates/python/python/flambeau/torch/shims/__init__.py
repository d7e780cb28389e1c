"""What only programs written for PyTorch need, in modules with PyTorch's paths; `top` is `torch` itself."""
