"""Classifiers of sequences, as a PyTorch user writes them: an LSTM and a GRU over embedded words, bidirectional, two layers deep."""

import torch
import torch.nn as nn


class Recurrent(nn.Module):
    def __init__(self, kind, words=40, width=12, hidden=16, classes=5):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = kind(width, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=0.0)
        self.norm = nn.LayerNorm(2 * hidden)
        self.fc = nn.Sequential(nn.Linear(4 * hidden, hidden), nn.Tanh(), nn.Dropout(0.0), nn.Linear(hidden, classes))

    def forward(self, words, state=None):
        out, state = self.rnn(self.embed(words), state)
        last = state[0] if isinstance(state, tuple) else state
        ends = torch.cat([last[-2], last[-1]], dim=1)
        return self.fc(torch.cat([self.norm(out).mean(dim=1), ends], dim=-1))


def make():
    return Recurrent(nn.LSTM)


def make_gru():
    return Recurrent(nn.GRU)


def loss(model, words, labels):
    return nn.CrossEntropyLoss()(model(words), labels)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)
