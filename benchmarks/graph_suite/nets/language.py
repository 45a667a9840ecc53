# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""Networks over tokens: BERT, GPT with a cache of keys and values, and grouped queries with rotary positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graph_suite.nets.net import Mlp, net


class BertLayer(nn.Module):
    """Self-attention with a mask, normalised after."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = Mlp(width, 4 * width)

    def split(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        return x.view(b, n, self.heads, c // self.heads).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        a = (q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5 + mask).softmax(-1)
        x = self.first(x + self.out((a @ v).permute(0, 2, 1, 3).reshape(b, n, c)))
        return self.second(x + self.mlp(x))


class Bert(nn.Module):
    def __init__(self, width: int = 128, words: int = 1000) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(1, 128, width) * 0.02)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(BertLayer(width, 4) for _ in range(4))
        self.pool = nn.Linear(width, width)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.words(ids) + self.places[:, : ids.shape[1]])
        bias = (1.0 - mask[:, None, None, :]) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return torch.tanh(self.pool(x[:, 0]))


@net(
    "bert", "language", {"ids": (1, 64), "mask": (1, 64)}, tokens={"ids": 1000},
    dynamic={"ids": {0: "batch"}, "mask": {0: "batch"}},
)  # fmt: skip
def bert() -> nn.Module:
    return Bert()


class GptLayer(nn.Module):
    """Causal attention of a few new tokens over a cache; the cache with the new keys and values is an output."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = Mlp(width, 4 * width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, n, c = x.shape
        q, k, v = self.qkv(self.first(x)).split(c, 2)
        q, k, v = (y.view(b, n, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        a = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5).masked_fill(mask == 0, -1e9).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.second(x)), k, v


class Gpt(nn.Module):
    def __init__(self, width: int = 128, words: int = 1000, old: int = 48, new: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(1, new, width) * 0.02)
        self.layers = nn.ModuleList(GptLayer(width, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(old + new, old + new))[old:].view(1, 1, new, old + new))

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.words(ids) + self.places
        ks: list[Tensor] = []
        vs: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, keys[i], values[i], self.mask)
            ks.append(k)
            vs.append(v)
        return self.head(self.norm(x)), torch.stack(ks), torch.stack(vs)


@net(
    "gpt_kv", "language", {"ids": (1, 16), "keys": (2, 1, 4, 48, 32), "values": (2, 1, 4, 48, 32)}, tokens={"ids": 1000}
)
def gpt_kv() -> nn.Module:
    return Gpt()


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotated(x: Tensor) -> Tensor:
    """Halves swapped, the second one negated."""
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class GroupedLayer(nn.Module):
    """Grouped queries with rotary positions and a gated feed-forward network."""

    def __init__(self, width: int, heads: int, groups: int, length: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.first, self.second = RmsNorm(width), RmsNorm(width)
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())
        self.register_buffer("mask", torch.triu(torch.full((length, length), -1e9), 1))

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        y = self.first(x)
        q = self.q(y).view(b, n, self.heads, self.size).transpose(1, 2)
        k, v = (f(y).view(b, n, self.groups, self.size).transpose(1, 2) for f in (self.k, self.v))
        q, k = (z * self.cos + rotated(z) * self.sin for z in (q, k))
        repeats = self.heads // self.groups
        k, v = (
            z[:, :, None].expand(b, self.groups, repeats, n, self.size).reshape(b, self.heads, n, self.size)
            for z in (k, v)
        )
        a = (q @ k.transpose(2, 3) * self.size**-0.5 + self.mask).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, n, c))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@net("gpt_gqa", "language", {"x": (1, 64, 128)})
def gpt_gqa() -> nn.Module:
    return nn.Sequential(*(GroupedLayer(128, 8, 2, 64) for _ in range(3)), RmsNorm(128), nn.Linear(128, 500))
