"""torch-geometric: layers for graphs, with a training step."""

import torch
from torch_geometric import nn as gnn
from torch_geometric.data import Batch, Data

from harness import double, tensor, train

EDGES = torch.tensor([[0, 1, 2, 3, 4, 0, 2, 5], [1, 2, 3, 4, 5, 3, 5, 0]])


def layer(made, *more):
    return train(double(made), tensor(6, 4), EDGES, *more)


def case_gcn():
    return layer(gnn.GCNConv(4, 3))


def case_gat():
    return layer(gnn.GATConv(4, 3, heads=2))


def case_sage():
    return layer(gnn.SAGEConv(4, 3))


def case_gin():
    return layer(gnn.GINConv(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))))


def case_transformer():
    return layer(gnn.TransformerConv(4, 3, heads=2))


def case_model():
    return layer(gnn.GraphSAGE(4, 8, 2, 3))


def case_batches():
    graphs = [Data(x=tensor(3, 4, seed=seed), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]])) for seed in range(3)]
    batch = Batch.from_data_list(graphs)
    return [batch.x, batch.edge_index, gnn.global_mean_pool(batch.x, batch.batch), gnn.global_max_pool(batch.x, batch.batch)]
