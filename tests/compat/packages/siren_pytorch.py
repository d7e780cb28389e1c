"""siren-pytorch: a network of sines, with a training step."""

from siren_pytorch import SirenNet, SirenWrapper

from harness import double, tensor, train


def case_net():
    return train(double(SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3, w0_initial=5.0)), tensor(5, 2))


def case_wrapper():
    net = SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=2, w0_initial=5.0)
    return train(double(SirenWrapper(net, latent_dim=4, image_width=6, image_height=6)), latent=tensor(4))
