# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""Networks of attention over all tokens: ViT, DETR, TimeSformer, MobileViT, an autoencoder, Restormer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graph_suite.nets.net import Lambda, Mlp, Residual, conv, net


class Attention(nn.Module):
    """Self-attention, queries, keys and values from one product, heads by reshape and permute."""

    def __init__(self, width: int, heads: int, packed: bool = True) -> None:
        super().__init__()
        self.heads, self.packed = heads, packed
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        if self.packed:
            q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            q, k, v = (y.reshape(b, n, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        a = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5).softmax(-1)
        return self.out((a @ v).transpose(1, 2).reshape(b, n, c))


def block(width: int, heads: int, packed: bool = True) -> nn.Sequential:
    """A transformer block, normalised before."""
    return nn.Sequential(
        Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, heads, packed))),
        Residual(nn.Sequential(nn.LayerNorm(width), Mlp(width, 4 * width))),
    )


class Vit(nn.Module):
    """Patches, a class token, positions, blocks."""

    def __init__(self, width: int = 192, depth: int = 4, heads: int = 3) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.blocks = nn.Sequential(*(block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


@net("vit", "attention", {"x": (1, 3, 224, 224)}, dynamic={"x": {0: "batch"}})
def vit() -> nn.Module:
    return Vit()


@net("mixer", "attention", {"x": (1, 3, 224, 224)})
def mixer() -> nn.Module:
    width, tokens = 128, 196

    def swap() -> nn.Module:
        return Lambda(lambda x: x.transpose(1, 2))

    blocks = [
        nn.Sequential(
            Residual(nn.Sequential(nn.LayerNorm(width), swap(), Mlp(tokens, 256), swap())),
            Residual(nn.Sequential(nn.LayerNorm(width), Mlp(width, 512))),
        )
        for _ in range(4)
    ]
    tail = [nn.LayerNorm(width), Lambda(lambda x: x.mean(1)), nn.Linear(width, 100)]
    return nn.Sequential(nn.Conv2d(3, width, 16, 16), Lambda(lambda x: x.flatten(2).transpose(1, 2)), *blocks, *tail)


class CrossAttention(nn.Module):
    """Queries of one sequence, keys and values of another."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k, v = (
            f(z).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, z in ((self.q, x), (self.k, y), (self.v, y))
        )
        a = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return self.out((a @ v).transpose(1, 2).flatten(2))


class Detr(nn.Module):
    """A small backbone, an encoder over its cells, a decoder over object queries."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.backbone = nn.Sequential(conv(3, 32, 7, 4), conv(32, 64, 3, 2), conv(64, width, 3, 2), conv(width, width))
        self.position = nn.Parameter(torch.randn(1, 196, width) * 0.02)
        self.encoder = nn.Sequential(*(block(width, 4, packed=False) for _ in range(2)))
        self.queries = nn.Parameter(torch.randn(1, 50, width) * 0.02)
        self.selves = nn.ModuleList(Attention(width, 4, packed=False) for _ in range(2))
        self.crosses = nn.ModuleList(CrossAttention(width, 4) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(6))
        self.mlps = nn.ModuleList(Mlp(width, 2 * width) for _ in range(2))
        self.classes, self.boxes = nn.Linear(width, 21), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.encoder(self.backbone(x).flatten(2).permute(0, 2, 1) + self.position)
        y = self.queries.expand(x.shape[0], -1, -1)
        for i in range(2):
            y = self.norms[3 * i](y + self.selves[i](y))
            y = self.norms[3 * i + 1](y + self.crosses[i](y, memory))
            y = self.norms[3 * i + 2](y + self.mlps[i](y))
        return self.classes(y), self.boxes(y).sigmoid()


@net("detr", "attention", {"x": (1, 3, 224, 224)})
def detr() -> nn.Module:
    return Detr()


class Divided(nn.Module):
    """Attention over time, then over space (TimeSformer)."""

    def __init__(self, width: int, frames: int, heads: int) -> None:
        super().__init__()
        self.frames = frames
        self.time, self.space = Attention(width, heads), Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.mlp = Mlp(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        t, s = self.frames, n // self.frames
        y = self.norms[0](x).reshape(b, t, s, c).transpose(1, 2).reshape(b * s, t, c)
        x = x + self.time(y).reshape(b, s, t, c).transpose(1, 2).reshape(b, n, c)
        y = self.norms[1](x).reshape(b * t, s, c)
        x = x + self.space(y).reshape(b, n, c)
        return x + self.mlp(self.norms[2](x))


class TimeSformer(nn.Module):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.Sequential(*(Divided(width, 8, 4) for _ in range(3)))
        self.head = nn.Linear(width, 50)

    def forward(self, x: Tensor) -> Tensor:
        b = x.shape[0]
        y = self.patch(x.flatten(0, 1)).flatten(2).transpose(1, 2)
        return self.head(self.blocks(y.reshape(b, -1, y.shape[-1])).mean(1))


@net("timesformer", "attention", {"x": (1, 8, 3, 112, 112)})
def timesformer() -> nn.Module:
    return TimeSformer()


class MobileVitBlock(nn.Module):
    """Convolutions, then attention over pixels at equal places of 2 x 2 patches, then convolutions."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.local = nn.Sequential(conv(channels, channels, act=nn.SiLU()), nn.Conv2d(channels, width, 1))
        self.blocks = nn.Sequential(block(width, 4), block(width, 4), nn.LayerNorm(width))
        self.back = conv(width, channels, 1, act=nn.SiLU())
        self.fuse = conv(2 * channels, channels, act=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        y = self.local(x)
        b, c, h, w = y.shape
        y = y.reshape(b * c * h // 2, 2, w // 2, 2).transpose(1, 2).reshape(b, c, h * w // 4, 4)
        y = self.blocks(y.transpose(1, 3).reshape(b * 4, h * w // 4, c))
        y = y.reshape(b, 4, h * w // 4, c).transpose(1, 3).reshape(b * c * h // 2, w // 2, 2, 2)
        return self.fuse(torch.cat([x, self.back(y.transpose(1, 2).reshape(b, c, h, w))], 1))


@net("mobilevit", "attention", {"x": (1, 3, 128, 128)})
def mobilevit() -> nn.Module:
    silu = nn.SiLU
    return nn.Sequential(
        conv(3, 16, 3, 2, act=silu()),
        conv(16, 32, 3, 2, act=silu()),
        MobileVitBlock(32, 64),
        conv(32, 48, 3, 2, act=silu()),
        MobileVitBlock(48, 80),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 100),
    )


class PixelAttention(nn.Module):
    """Single-headed attention over the pixels of an image, as in autoencoders for diffusion."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.q, self.k, self.v, self.out = (nn.Conv2d(channels, channels, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        b, c, h, w = x.shape
        q, k, v = self.q(y).reshape(b, c, -1).permute(0, 2, 1), self.k(y).reshape(b, c, -1), self.v(y).reshape(b, c, -1)
        a = (torch.bmm(q, k) * c**-0.5).softmax(2)
        return x + self.out(torch.bmm(v, a.permute(0, 2, 1)).reshape(b, c, h, w))


@net("vae", "attention", {"z": (1, 4, 32, 32)})
def vae() -> nn.Module:
    def residual(c: int) -> nn.Module:
        return Residual(
            nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, 1, 1), nn.GroupNorm(8, c), nn.SiLU(),
                          nn.Conv2d(c, c, 3, 1, 1))
        )  # fmt: skip

    return nn.Sequential(
        nn.Conv2d(4, 128, 3, 1, 1), residual(128), PixelAttention(128), residual(128),
        nn.Upsample(scale_factor=2), nn.Conv2d(128, 64, 3, 1, 1), residual(64),
        nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, 1, 1),
    )  # fmt: skip


class ChannelAttention(nn.Module):
    """Attention between channels (Restormer): rows are channels, depthwise convolutions before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.depth = nn.Conv2d(3 * width, 3 * width, 3, 1, 1, groups=3 * width)
        self.scale = nn.Parameter(torch.ones(heads, 1, 1))
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        q, k, v = (y.reshape(b, self.heads, c // self.heads, h * w) for y in self.depth(self.qkv(x)).chunk(3, 1))
        a = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.scale).softmax(-1)
        return self.out((a @ v).reshape(b, c, h, w))


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of NCHW, by flattening to tokens and back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return self.norm(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(b, c, h, w)


class Gated(nn.Module):
    """A gated depthwise feed-forward network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Conv2d(width, 4 * width, 1)
        self.depth = nn.Conv2d(4 * width, 4 * width, 3, 1, 1, groups=4 * width)
        self.down = nn.Conv2d(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.depth(self.up(x)).chunk(2, 1)
        return self.down(F.gelu(a) * b)


@net("restormer", "attention", {"x": (1, 3, 64, 64)})
def restormer() -> nn.Module:
    def blocks(width: int, heads: int) -> list[nn.Module]:
        return [
            Residual(nn.Sequential(ChannelNorm(width), ChannelAttention(width, heads))),
            Residual(nn.Sequential(ChannelNorm(width), Gated(width))),
        ]

    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1), *blocks(32, 1), nn.Conv2d(32, 16, 3, 1, 1), nn.PixelUnshuffle(2), *blocks(64, 2),
        nn.Conv2d(64, 128, 3, 1, 1), nn.PixelShuffle(2), *blocks(32, 1), nn.Conv2d(32, 3, 3, 1, 1),
    )  # fmt: skip
