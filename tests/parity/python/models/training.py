"""Training steps of usual models, written for PyTorch: each function makes a model, its optimiser and a batch, and returns a step."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def trained(model, optimizer, loss):
    """A step of training, which returns the loss."""

    def step():
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        optimizer.step()
        return value

    return step


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.shortcut(x))


def resnet18():
    """ResNet-18 on 8 images of 64 by 64."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
        inputs = outputs
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    images, labels = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return trained(model, optimizer, lambda net: F.cross_entropy(net(images), labels))


class Block(nn.Module):
    """A block of a transformer, with attention to earlier positions only if it is causal."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class VisionTransformer(nn.Module):
    """Patches of 8 by 8, six blocks of width 192."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 8, 8)
        self.positions = nn.Parameter(torch.zeros(1, 64, 192))
        self.blocks = nn.Sequential(*[Block(192, 3, False) for _ in range(6)])
        self.head = nn.Sequential(nn.LayerNorm(192), nn.Linear(192, 10))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.blocks(x).mean(1))


def vit_tiny():
    """A small vision transformer on 8 images of 64 by 64."""
    model = VisionTransformer()
    images, labels = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return trained(model, optimizer, lambda net: F.cross_entropy(net(images), labels))


class Language(nn.Module):
    """Four causal blocks of width 128."""

    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(96, 128), nn.Embedding(128, 128)
        self.blocks = nn.Sequential(*[Block(128, 4, True) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 96, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.words(x) + self.positions(torch.arange(x.shape[1])))))


def gpt():
    """A character model on 8 texts of 128 characters."""
    model = Language()
    text = torch.randint(0, 96, (8, 129))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return trained(model, optimizer, lambda net: F.cross_entropy(net(text[:, :-1]).reshape(-1, 96), text[:, 1:].reshape(-1)))


class Recurrent(nn.Module):
    """Two layers of LSTM, of which the last output is classified."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 128, 2, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    """Two layers of LSTM on 32 sequences of 64 steps."""
    model = Recurrent()
    series, labels = torch.randn(32, 64, 32), torch.randint(0, 10, (32,))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return trained(model, optimizer, lambda net: F.cross_entropy(net(series), labels))


def convolved(inputs, outputs):
    """Two convolutions with group norms."""
    parts = []
    for count in (inputs, outputs):
        parts += [nn.Conv2d(count, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Three levels, joined by concatenations."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([convolved(3, 16), convolved(16, 32), convolved(32, 64)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
        self.joined = nn.ModuleList([convolved(64, 32), convolved(32, 16)])
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](F.max_pool2d(a, 2))
        x = self.down[2](F.max_pool2d(b, 2))
        x = self.joined[0](torch.cat([self.up[0](x), b], 1))
        return self.head(self.joined[1](torch.cat([self.up[1](x), a], 1)))


def unet():
    """A small U-Net on 4 images of 64 by 64."""
    model = UNet()
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 2, (4, 64, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return trained(model, optimizer, lambda net: F.cross_entropy(net(images), labels))


class Autoencoder(nn.Module):
    """A variational autoencoder of images of 28 by 28."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(400, 20), nn.Linear(400, 20)
        self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x):
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(code), mean, log_variance


def vae():
    """A variational autoencoder on 128 images of 28 by 28."""
    model = Autoencoder()
    images = torch.rand(128, 784)

    def loss(net):
        decoded, mean, log_variance = net(images)
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return F.binary_cross_entropy_with_logits(decoded, images, reduction="sum") + divergence

    return trained(model, torch.optim.Adam(model.parameters(), lr=1e-3), loss)


class GraphConvolutions(nn.Module):
    """Two graph convolutions: sums over neighbours, scaled by their degrees."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 7)])

    def forward(self, x, edges, weights):
        for index, layer in enumerate(self.layers):
            x = layer(x)
            x = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]] * weights)
            x = F.relu(x) if index == 0 else x
        return x


def gcn():
    """Graph convolutions on 2,700 nodes and 10,800 edges."""
    model = GraphConvolutions()
    x, edges, labels = torch.randn(2700, 64), torch.randint(0, 2700, (2, 10800)), torch.randint(0, 7, (2700,))
    degrees = torch.bincount(edges[1], minlength=2700).clamp(min=1).to(torch.float32)
    weights = (degrees[edges[0]] * degrees[edges[1]]).rsqrt().unsqueeze(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return trained(model, optimizer, lambda net: F.cross_entropy(net(x, edges, weights), labels))


MODELS = {"resnet18": resnet18, "vit_tiny": vit_tiny, "gpt": gpt, "lstm": lstm, "unet": unet, "vae": vae, "gcn": gcn}
