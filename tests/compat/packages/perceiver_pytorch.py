"""perceiver-pytorch: a training step of Perceiver and of Perceiver IO."""

import perceiver_pytorch

from harness import double, tensor, train


def case_perceiver():
    model = perceiver_pytorch.Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=2, max_freq=4.0, depth=2, num_latents=6, latent_dim=16, latent_heads=2,
        cross_dim_head=8, latent_dim_head=8, num_classes=5, self_per_cross_attn=1, weight_tie_layers=True,
    )
    return train(double(model), tensor(2, 8, 8, 3))


def case_io():
    model = perceiver_pytorch.PerceiverIO(
        dim=8, queries_dim=8, logits_dim=4, depth=2, num_latents=6, latent_dim=16, latent_heads=2, cross_dim_head=8, latent_dim_head=8
    )
    return train(double(model), tensor(2, 12, 8), queries=tensor(5, 8, seed=1))
