"""sentence-transformers: pooling, losses and similarity over a model that is given."""

import torch
from sentence_transformers import util
from sentence_transformers.models import Dense, Normalize, Pooling

from harness import double, tensor


def case_pooling():
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])
    found = {}
    for mode in ("mean", "max", "cls", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"):
        pooled = Pooling(5, pooling_mode=mode)({"token_embeddings": tensor(2, 4, 5), "attention_mask": mask})
        found[mode] = pooled["sentence_embedding"]
    return found


def case_head():
    head = torch.nn.Sequential(double(Dense(5, 3)), Normalize())
    x = {"sentence_embedding": tensor(2, 5).requires_grad_()}
    out = head(x)["sentence_embedding"]
    (out * tensor(2, 3, seed=2)).sum().backward()
    return [out, [parameter.grad for parameter in head.parameters()]]


def case_similarity():
    a, b = tensor(4, 6), tensor(5, 6, seed=1)
    hits = util.semantic_search(a, b, top_k=2)
    return [util.cos_sim(a, b), util.dot_score(a, b), util.pairwise_cos_sim(a, b[:4]), [[hit["corpus_id"] for hit in row] for row in hits]]
