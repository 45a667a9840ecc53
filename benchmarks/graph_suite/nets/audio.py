# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""Networks over sound: a wav2vec-like encoder and a Conformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graph_suite.nets.attention import Attention, block
from graph_suite.nets.net import Lambda, Mlp, Residual, net


class ChannelNorm1d(nn.Module):
    """Layer normalisation over the channels of (batch, channels, time)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class Wav2vec(nn.Module):
    """Convolutions over samples, a positional convolution, transformer blocks."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for i, (kernel, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (2, 2))):
            layers += [nn.Conv1d(1 if i == 0 else 64, 64, kernel, stride, bias=False), ChannelNorm1d(64), nn.GELU()]
        self.features = nn.Sequential(*layers)
        self.project = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, width))
        self.position = nn.Conv1d(width, width, 16, padding=8, groups=8)
        self.blocks = nn.Sequential(*(block(width, 4, packed=False) for _ in range(3)))
        self.head = nn.Linear(width, 32)

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.features(x.unsqueeze(1)).transpose(1, 2))
        p = F.gelu(self.position(y.transpose(1, 2))[:, :, :-1])
        return self.head(self.blocks(y + p.transpose(1, 2)))


@net("wav2vec", "audio", {"x": (1, 16000)})
def wav2vec() -> nn.Module:
    return Wav2vec()


def conformer_block(width: int) -> nn.Module:
    """Half a feed-forward step, attention, a convolution over time, half a feed-forward step."""

    def half() -> nn.Module:
        return Residual(nn.Sequential(nn.LayerNorm(width), Mlp(width, 4 * width), Lambda(lambda x: 0.5 * x)))

    def swap() -> nn.Module:
        return Lambda(lambda x: x.transpose(1, 2))

    convolution = nn.Sequential(
        nn.LayerNorm(width), swap(), nn.Conv1d(width, 2 * width, 1), nn.GLU(1),
        nn.Conv1d(width, width, 15, 1, 7, groups=width), nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1),
        swap(),
    )  # fmt: skip
    return nn.Sequential(
        half(), Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, 4))), Residual(convolution), half(),
        nn.LayerNorm(width),
    )  # fmt: skip


class Conformer(nn.Module):
    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 2), nn.ReLU())
        self.project = nn.Linear(32 * 19, width)
        self.blocks = nn.Sequential(*(conformer_block(width) for _ in range(3)))
        self.head = nn.Linear(width, 64)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x.unsqueeze(1))
        b, c, t, f = y.shape
        return torch.log_softmax(self.head(self.blocks(self.project(y.transpose(1, 2).reshape(b, t, c * f)))), -1)


@net("conformer", "audio", {"x": (1, 200, 80)})
def conformer() -> nn.Module:
    return Conformer()
