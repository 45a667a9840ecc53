# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""Networks of attention inside of windows, grids and rows: Swin, window attention with padding, MaxViT, axial."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graph_suite.nets.attention import Attention
from graph_suite.nets.net import Mlp, Residual, conv, net


def partition(x: Tensor, size: int) -> Tensor:
    """(b, h, w, c) to (b * windows, size * size, c)."""
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


def merge(x: Tensor, size: int, h: int, w: int) -> Tensor:
    """(b * windows, size * size, c) to (b, h, w, c)."""
    c = x.shape[-1]
    x = x.reshape(-1, h // size, w // size, size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, c)


class BiasedAttention(nn.Module):
    """Attention inside of windows with a bias for each pair of places, and a mask of shifted windows."""

    def __init__(self, width: int, heads: int, size: int, mask: Tensor | None) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(1, heads, size * size, size * size) * 0.02)
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.bias
        if self.mask is not None:
            m = self.mask.shape[0]
            a = (a.view(b // m, m, self.heads, n, n) + self.mask.unsqueeze(1).unsqueeze(0)).view(-1, self.heads, n, n)
        return self.out((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


def shift_mask(side: int, size: int, shift: int) -> Tensor:
    """What keeps tokens of a shifted window apart that were not neighbours: 0 or -100."""
    region = torch.zeros(1, side, side, 1)
    cuts = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
    for i, rows in enumerate(cuts):
        for j, columns in enumerate(cuts):
            region[:, rows, columns] = 3 * i + j
    windows = partition(region, size).squeeze(-1)
    return (windows.unsqueeze(1) != windows.unsqueeze(2)).float() * -100.0


class SwinBlock(nn.Module):
    def __init__(self, width: int, heads: int, side: int, size: int, shift: int) -> None:
        super().__init__()
        self.side, self.size, self.shift = side, size, shift
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = BiasedAttention(width, heads, size, shift_mask(side, size, shift) if shift else None)
        self.mlp = Mlp(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        y = self.first(x).view(b, self.side, self.side, c)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = merge(self.attention(partition(y, self.size)), self.size, self.side, self.side)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y.reshape(b, n, c)
        return x + self.mlp(self.second(x))


class PatchMerging(nn.Module):
    """Four neighbours become one token of twice the width."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.norm, self.down = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, _, c = x.shape
        x = x.view(b, self.side, self.side, c)
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.down(self.norm(x.view(b, -1, 4 * c)))


class Swin(nn.Module):
    def __init__(self, image: int, width: int = 48, size: int = 7) -> None:
        super().__init__()
        side = image // 4
        self.patch, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.blocks = nn.Sequential(
            SwinBlock(width, 3, side, size, 0), SwinBlock(width, 3, side, size, size // 2),
            PatchMerging(width, side),
            SwinBlock(2 * width, 6, side // 2, size, 0), SwinBlock(2 * width, 6, side // 2, size, size // 2),
        )  # fmt: skip
        self.last, self.head = nn.LayerNorm(2 * width), nn.Linear(2 * width, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.patch(x).flatten(2).transpose(1, 2))
        return self.head(self.last(self.blocks(x)).mean(1))


@net("swin", "windows", {"x": (1, 3, 224, 224)})
def swin() -> nn.Module:
    return Swin(224)


@net("swin_small", "windows", {"x": (1, 3, 112, 112)})
def swin_small() -> nn.Module:
    return Swin(112, 96)


class PaddedWindows(nn.Module):
    """Window attention over an image whose side is padded to a multiple of the window, and cropped after."""

    def __init__(self, width: int, heads: int, side: int, size: int) -> None:
        super().__init__()
        self.side, self.size = side, size
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = BiasedAttention(width, heads, size, None), Mlp(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        more = -self.side % self.size
        full = self.side + more
        y = F.pad(self.first(x), (0, 0, 0, more, 0, more))
        y = merge(self.attention(partition(y, self.size)), self.size, full, full)
        x = x + y[:, : self.side, : self.side]
        return x + self.mlp(self.second(x))


class WindowNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 96, 4, 4)
        self.blocks = nn.Sequential(*(PaddedWindows(96, 3, 50, 7) for _ in range(3)))
        self.head = nn.Linear(96, 100)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.patch(x).permute(0, 2, 3, 1)).mean((1, 2)))


@net("winpad", "windows", {"x": (1, 3, 200, 200)})
def winpad() -> nn.Module:
    return WindowNet()


class GridAttention(nn.Module):
    """Attention inside of blocks, or between equal places of blocks (MaxViT)."""

    def __init__(self, width: int, heads: int, size: int, grid: bool) -> None:
        super().__init__()
        self.size, self.grid = size, grid
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.tail = Residual(nn.Sequential(nn.LayerNorm(width), Mlp(width, 4 * width)))

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        s = self.size
        if self.grid:
            y = x.view(b, s, h // s, s, w // s, c).permute(0, 2, 4, 1, 3, 5).reshape(-1, s * s, c)
        else:
            y = partition(x, s)
        y = y + self.attention(self.norm(y))
        y = self.tail(y)
        if not self.grid:
            return merge(y, s, h, w)
        return y.reshape(b, h // s, w // s, s, s, c).permute(0, 3, 1, 4, 2, 5).reshape(b, h, w, c)


class MaxVitBlock(nn.Module):
    """An inverted bottleneck in NCHW, then block and grid attention in NHWC."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.convs = Residual(
            nn.Sequential(
                conv(width, 4 * width, 1, act=nn.GELU()),
                conv(4 * width, 4 * width, 3, groups=4 * width, act=nn.GELU()),
                nn.Conv2d(4 * width, width, 1),
            )
        )
        self.block, self.grid = GridAttention(width, 2, size, False), GridAttention(width, 2, size, True)

    def forward(self, x: Tensor) -> Tensor:
        return self.grid(self.block(self.convs(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


@net("maxvit", "windows", {"x": (1, 3, 112, 112)})
def maxvit() -> nn.Module:
    return nn.Sequential(
        conv(3, 64, 3, 2, act=nn.GELU()), conv(64, 64, 3, 2, act=nn.GELU()), MaxVitBlock(64, 7), MaxVitBlock(64, 7),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100),
    )  # fmt: skip


class Axial(nn.Module):
    """Attention along rows, then along columns of an image in NCHW."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.rows, self.columns = Attention(width, heads, packed=False), Attention(width, heads, packed=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        y = self.norms[0](x).permute(0, 2, 3, 1).reshape(b * h, w, c)
        x = x + self.rows(y).reshape(b, h, w, c).permute(0, 3, 1, 2)
        y = self.norms[1](x).permute(0, 3, 2, 1).reshape(b * w, h, c)
        return x + self.columns(y).reshape(b, w, h, c).permute(0, 3, 2, 1)


@net("axial", "windows", {"x": (1, 3, 112, 112)})
def axial() -> nn.Module:
    return nn.Sequential(
        conv(3, 64, 7, 4), Axial(64, 4), conv(64, 64), Axial(64, 4), conv(64, 64), Axial(64, 4),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100),
    )  # fmt: skip
