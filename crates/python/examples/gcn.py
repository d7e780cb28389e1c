"""Trains a graph convolutional network to tell communities of a random graph apart: products of a sparse matrix and features."""

from __future__ import annotations

import flambeau
from flambeau import Tensor, nn

from _sparse_training import options, trained

OPTIONS = (
    ("nodes", 100_000, "nodes of the graph"),
    ("degree", 10, "edges that begin at each node"),
    ("communities", 4, "groups of nodes, inside of which most edges are"),
    ("features", 32, "features of a node, which are noise with a hint of its group"),
)


def graph(nodes: int, degree: int, communities: int) -> tuple[Tensor, Tensor]:
    """The normalized adjacency matrix, with each node joined to itself, and the group of each node."""
    groups = flambeau.randint(0, communities, (nodes,))
    begins = flambeau.arange(nodes).repeat_interleave(degree)
    ends = flambeau.randint(0, nodes, (nodes * degree,))
    # Three of four edges between groups are drawn once more.
    outside = groups[begins] != groups[ends]
    again = outside & (flambeau.rand(nodes * degree) < 0.75)
    ends = flambeau.where(again, flambeau.randint(0, nodes, (nodes * degree,)), ends)
    itself = flambeau.arange(nodes)
    indices = flambeau.stack([flambeau.cat([begins, ends, itself]), flambeau.cat([ends, begins, itself])])
    joined = flambeau.sparse_coo_tensor(indices, flambeau.ones(indices.shape[1]), (nodes, nodes)).coalesce()
    scale = flambeau.sparse.sum(joined, 1).to_dense().rsqrt()
    row, column = joined.indices().unbind(0)
    values = joined.values() * scale[row] * scale[column]
    return flambeau.sparse_coo_tensor(joined.indices(), values, (nodes, nodes), is_coalesced=True).to_sparse_csr(), groups


class Network(nn.Module):
    """Two layers, each of which averages the neighbours of a node."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, classes)

    def forward(self, adjacency: Tensor, features: Tensor) -> Tensor:
        hidden = (adjacency @ self.first(features)).relu()
        return adjacency @ self.second(hidden)


def main() -> None:
    args = options(__doc__, OPTIONS)
    flambeau.manual_seed(args.seed)
    adjacency, groups = graph(args.nodes, args.degree, args.communities)
    hints = nn.functional.one_hot(groups, args.communities).float() @ flambeau.randn(args.communities, args.features)
    features = hints * 0.5 + flambeau.randn(args.nodes, args.features)
    network = Network(args.features, 64, args.communities)
    adam = flambeau.optim.Adam(network.parameters(), lr=args.lr)
    known = flambeau.rand(args.nodes) < 0.1
    print(f"{args.nodes} nodes, {adjacency._nnz()} elements, {int(known.sum())} nodes with a known group")

    def train() -> tuple[Tensor, Tensor]:
        adam.zero_grad()
        scores = network(adjacency, features)
        loss = nn.functional.cross_entropy(scores[known], groups[known])
        loss.backward()
        adam.step()
        return loss.detach(), scores.detach()

    def right(scores: Tensor) -> str:
        return f"{(scores.argmax(1) == groups)[~known].float().mean().item():.1%} of the other nodes right"

    milliseconds, mebibytes = trained(args.steps, train, right)
    print(f"{milliseconds:.1f} ms a step, with at most {mebibytes:.1f} MiB in tensors")


if __name__ == "__main__":
    main()
