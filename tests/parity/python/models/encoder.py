"""A language model of a Transformer encoder, as a PyTorch user writes it: masked, with sentences of several lengths."""

import math

import torch
from torch import nn
from torch.nn import functional as F

PADDING = 0


class Positions(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(1, longest, width)
        table[0, :, 0::2] = torch.sin(position * rates)
        table[0, :, 1::2] = torch.cos(position * rates)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


class LanguageModel(nn.Module):
    def __init__(self, words, width=32, heads=4, hidden=64, layers=3, norm_first=False, activation="gelu"):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(words, width, padding_idx=PADDING)
        self.positions = Positions(width)
        layer = nn.TransformerEncoderLayer(
            width, heads, hidden, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(
            layer, layers, norm=nn.LayerNorm(width) if norm_first else None, enable_nested_tensor=False
        )
        self.head = nn.Linear(width, words)

    def forward(self, words):
        causal = nn.Transformer.generate_square_subsequent_mask(words.size(1), dtype=self.head.weight.dtype)
        padding = torch.zeros(words.shape, dtype=causal.dtype).masked_fill(words == PADDING, float("-inf"))
        x = self.positions(self.embedding(words) * math.sqrt(self.width))
        return self.head(self.encoder(x, mask=causal, src_key_padding_mask=padding, is_causal=True))


class Classifier(LanguageModel):
    """Looks at whole sentences, so the masks are of bools and only of padding, and of one head's own besides."""

    def forward(self, words):
        length = words.size(1)
        apart = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).abs() > 3
        x = self.positions(self.embedding(words) * math.sqrt(self.width))
        x = self.encoder(x, mask=apart, src_key_padding_mask=words == PADDING)
        kept = (words != PADDING).unsqueeze(-1)
        return self.head((x * kept).sum(dim=1) / kept.sum(dim=1))


def make():
    return LanguageModel(words=50)


def make_classifier():
    return Classifier(words=50, layers=2, norm_first=True, activation="relu")


def loss(model, words, following):
    return F.cross_entropy(model(words).transpose(1, 2), following, ignore_index=PADDING)


def loss_of_class(model, words, labels):
    return F.cross_entropy(model(words), labels)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-6)
