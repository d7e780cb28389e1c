"""pytorch-tabnet: its network, with a training step."""

from pytorch_tabnet.tab_network import TabNet

from harness import double, tensor, train


def case_network():
    import torch

    model = TabNet(6, 2, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(6), virtual_batch_size=8)
    return train(double(model), tensor(8, 6))
