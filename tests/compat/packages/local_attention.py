"""local-attention: attention inside of windows, and a language model of it."""

from local_attention import LocalAttention, LocalTransformer

from harness import double, integers, tensor, train

TOLERANCE = 2e-5


def case_attention():
    layer = LocalAttention(dim=8, window_size=4, causal=True, look_backward=1, autopad=True)
    parts = [tensor(2, 2, 10, 8, seed=seed).requires_grad_() for seed in range(3)]
    found = layer(*parts)
    found.square().sum().backward()
    return [found, [part.grad for part in parts]]


def case_model():
    model = LocalTransformer(num_tokens=30, dim=16, depth=2, causal=True, local_attn_window_size=4, max_seq_len=16, heads=2, dim_head=8)
    return train(double(model), integers(1, 16, below=30))
