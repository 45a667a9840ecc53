# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""Convolutional networks: ConvNeXt, U-Net, YOLO, ShuffleNet, pixel shuffle, channels-last graphs, CRNN, PointNet."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graph_suite.nets.net import Lambda, Mlp, Residual, conv, net


def to_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def to_first(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


class LastNorm(nn.Module):
    """Layer normalisation over the channels of NCHW, by a transpose and back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return to_first(self.norm(to_last(x)))


def convnext_block(width: int) -> nn.Module:
    return Residual(
        nn.Sequential(
            nn.Conv2d(width, width, 7, 1, 3, groups=width),
            Lambda(to_last),
            nn.LayerNorm(width, eps=1e-6),
            Mlp(width, 4 * width),
            Lambda(to_first),
        )
    )


@net("convnext", "convolution", {"x": (1, 3, 224, 224)}, dynamic={"x": {0: "batch"}})
def convnext() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 48, 4, 4), LastNorm(48), *(convnext_block(48) for _ in range(2)),
        LastNorm(48), nn.Conv2d(48, 96, 2, 2), *(convnext_block(96) for _ in range(2)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 100),
    )  # fmt: skip


class Unet(nn.Module):
    """Pads its input to a multiple of eight, crops its output; skips by concatenation."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.more = -side % 8
        self.side = side
        self.down = nn.ModuleList([self.pair(3, 16), self.pair(16, 32), self.pair(32, 64)])
        self.mid = self.pair(64, 128)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in (64, 32, 16))
        self.join = nn.ModuleList(self.pair(2 * c, c) for c in (64, 32, 16))
        self.out = nn.Conv2d(16, 2, 1)

    @staticmethod
    def pair(cin: int, cout: int) -> nn.Module:
        return nn.Sequential(conv(cin, cout), conv(cout, cout))

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, self.more, 0, self.more))
        kept: list[Tensor] = []
        for part in self.down:
            x = part(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.mid(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.out(x)[:, :, : self.side, : self.side]


@net("unet", "convolution", {"x": (1, 3, 100, 100)})
def unet() -> nn.Module:
    return Unet(100)


class Focus(nn.Module):
    """Every second pixel in four images, joined along the channels."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)


class CrossStage(nn.Module):
    """Half of the channels go through bottlenecks (C3)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half, act = width // 2, nn.SiLU
        self.a, self.b = conv(width, half, 1, act=act()), conv(width, half, 1, act=act())
        self.body = Residual(nn.Sequential(conv(half, half, 1, act=act()), conv(half, half, act=act())))
        self.out = conv(width, width, 1, act=act())

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([self.body(self.a(x)), self.b(x)], 1))


class Yolo(nn.Module):
    """Focus, cross stages, two heads whose boxes are decoded and joined."""

    def __init__(self, classes: int = 20) -> None:
        super().__init__()
        silu = nn.SiLU
        self.stem = nn.Sequential(Focus(), conv(12, 16, act=silu()), conv(16, 32, 3, 2, act=silu()), CrossStage(32))
        self.low = nn.Sequential(conv(32, 64, 3, 2, act=silu()), CrossStage(64))
        self.high = nn.Sequential(conv(64, 128, 3, 2, act=silu()), CrossStage(128))
        self.reduce = conv(128, 64, 1, act=silu())
        self.join = conv(128, 64, 1, act=silu())
        self.outputs = 5 + classes
        self.heads = nn.ModuleList(nn.Conv2d(c, 3 * self.outputs, 1) for c in (64, 128))
        self.register_buffer("anchors", torch.rand(2, 1, 3, 1, 1, 2) * 4 + 1)

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(self.stem(x))
        high = self.high(low)
        low = self.join(torch.cat([F.interpolate(self.reduce(high), scale_factor=2.0, mode="nearest"), low], 1))
        boxes: list[Tensor] = []
        for i, (head, y) in enumerate(zip(self.heads, (low, high), strict=True)):
            b, _, h, w = y.shape
            y = head(y).view(b, 3, self.outputs, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            grid = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), 2).float()
            place = (y[..., :2] * 2 - 0.5 + grid) * (8 * 2**i)
            size = (y[..., 2:4] * 2) ** 2 * self.anchors[i]
            boxes.append(torch.cat([place, size, y[..., 4:]], -1).view(b, -1, self.outputs))
        return torch.cat(boxes, 1)


@net("yolo", "convolution", {"x": (1, 3, 256, 256)})
def yolo() -> nn.Module:
    return Yolo()


def shuffle(x: Tensor, groups: int) -> Tensor:
    b, c, h, w = x.shape
    return x.view(b, groups, c // groups, h, w).transpose(1, 2).reshape(b, c, h, w)


class ShuffleUnit(nn.Module):
    """The unit of ShuffleNetV2: half of the channels pass, then all are shuffled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        depth = nn.Sequential(nn.Conv2d(half, half, 3, 1, 1, groups=half, bias=False), nn.BatchNorm2d(half))
        self.body = nn.Sequential(conv(half, half, 1), depth, conv(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        return shuffle(torch.cat([a, self.body(b)], 1), 2)


@net("shufflenet_v2", "convolution", {"x": (1, 3, 160, 160)})
def shufflenet_v2() -> nn.Module:
    return nn.Sequential(
        conv(3, 48, 3, 2), nn.MaxPool2d(3, 2, 1), ShuffleUnit(48), ShuffleUnit(48), ShuffleUnit(48),
        conv(48, 96, 3, 2), ShuffleUnit(96), ShuffleUnit(96),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 100),
    )  # fmt: skip


class GroupedUnit(nn.Module):
    """The unit of ShuffleNetV1: grouped products with a shuffle between."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.first = conv(width, width // 4, 1, groups=groups)
        self.depth = nn.Sequential(
            nn.Conv2d(width // 4, width // 4, 3, 1, 1, groups=width // 4), nn.BatchNorm2d(width // 4)
        )
        self.last = nn.Sequential(nn.Conv2d(width // 4, width, 1, groups=groups), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.last(self.depth(shuffle(self.first(x), self.groups))))


@net("shufflenet_v1", "convolution", {"x": (1, 3, 112, 112)})
def shufflenet_v1() -> nn.Module:
    return nn.Sequential(
        conv(3, 96, 3, 2), *(GroupedUnit(96, 3) for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(96, 100),
    )  # fmt: skip


@net("pixelshuffle", "convolution", {"x": (1, 1, 72, 72)})
def pixelshuffle() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, 1, 2), nn.Tanh(), nn.Conv2d(64, 32, 3, 1, 1), nn.Tanh(), nn.Conv2d(32, 9, 3, 1, 1),
        nn.PixelShuffle(3),
    )  # fmt: skip


@net("superresolution", "convolution", {"x": (1, 3, 48, 48)})
def superresolution() -> nn.Module:
    """Residual blocks around two pixel shuffles, beginning with an unshuffle."""

    def block() -> nn.Module:
        return Residual(nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1)))

    return nn.Sequential(
        nn.PixelUnshuffle(2), nn.Conv2d(12, 32, 3, 1, 1), block(), block(), nn.Conv2d(32, 128, 3, 1, 1),
        nn.PixelShuffle(2), nn.Conv2d(32, 128, 3, 1, 1), nn.PixelShuffle(2), nn.ReLU(), nn.Conv2d(32, 3, 3, 1, 1),
    )  # fmt: skip


class Last(nn.Module):
    """A channels-last operator as converters from NHWC write it: a transpose on each side."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return to_last(self.body(to_first(x)))


@net("nhwc_cnn", "nhwc", {"x": (1, 96, 96, 3)})
def nhwc_cnn() -> nn.Module:
    return nn.Sequential(
        Last(nn.Conv2d(3, 24, 3, 2, 1)), nn.ReLU(), Last(nn.Conv2d(24, 24, 3, 1, 1, groups=24)), nn.ReLU(),
        Last(nn.Conv2d(24, 48, 1)), nn.ReLU(), Residual(nn.Sequential(Last(nn.Conv2d(48, 48, 3, 1, 1)), nn.ReLU())),
        Last(nn.MaxPool2d(2)), Last(nn.Conv2d(48, 64, 3, 1, 1)), nn.ReLU6(), Lambda(lambda x: x.mean((1, 2))),
        nn.Linear(64, 10),
    )  # fmt: skip


class Squeeze(nn.Module):
    """Squeeze and excite in NHWC."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(width, width // 4), nn.SiLU(), nn.Linear(width // 4, width), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x.mean((1, 2), keepdim=True))


@net("efficientnet_nhwc", "nhwc", {"x": (1, 128, 128, 3)})
def efficientnet_nhwc() -> nn.Module:
    def block(width: int) -> nn.Module:
        wide = 4 * width
        return Residual(
            nn.Sequential(
                Last(nn.Conv2d(width, wide, 1)), nn.SiLU(), Last(nn.Conv2d(wide, wide, 3, 1, 1, groups=wide)),
                nn.SiLU(), Squeeze(wide), Last(nn.Conv2d(wide, width, 1)),
            )
        )  # fmt: skip

    return nn.Sequential(
        Last(nn.Conv2d(3, 24, 3, 2, 1)), nn.SiLU(), block(24), block(24), Last(nn.Conv2d(24, 40, 3, 2, 1)), block(40),
        block(40), Lambda(lambda x: x.mean((1, 2))), nn.Linear(40, 100),
    )  # fmt: skip


@net("densenet", "convolution", {"x": (1, 3, 112, 112)})
def densenet() -> nn.Module:
    class Dense(nn.Module):
        def __init__(self, cin: int) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, 16, 3, 1, 1, bias=False))

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, self.body(x)], 1)

    return nn.Sequential(
        conv(3, 32, 3, 2), Dense(32), Dense(48), Dense(64), nn.AvgPool2d(2), Dense(80), Dense(96),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(112, 100),
    )  # fmt: skip


@net("resnet", "convolution", {"x": (1, 3, 112, 112)})
def resnet() -> nn.Module:
    def block(c: int) -> nn.Module:
        return nn.Sequential(
            Residual(nn.Sequential(conv(c, c), nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c))), nn.ReLU()
        )

    return nn.Sequential(
        conv(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1), block(32), block(32), conv(32, 64, 3, 2), block(64), block(64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100),
    )  # fmt: skip


class Crnn(nn.Module):
    """Convolutions, then a recurrent network over the columns of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            conv(1, 32), nn.MaxPool2d(2), conv(32, 64), nn.MaxPool2d(2), conv(64, 64), nn.MaxPool2d((2, 1)),
            nn.Conv2d(64, 64, (4, 1)),
        )  # fmt: skip
        self.rnn, self.out = nn.LSTM(64, 48, bidirectional=True), nn.Linear(96, 37)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.rnn(self.convs(x).squeeze(2).permute(2, 0, 1))
        return self.out(y).log_softmax(2)


@net("crnn", "convolution", {"x": (1, 1, 32, 128)})
def crnn() -> nn.Module:
    return Crnn()


class PointNet(nn.Module):
    """Points (batch, points, 3) through shared layers, a learnt transform, and a maximum over points."""

    def __init__(self) -> None:
        super().__init__()
        self.pose = nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.ReLU())
        self.turn = nn.Linear(128, 9)
        self.body = nn.Sequential(
            nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 256, 1), nn.BatchNorm1d(256), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 40))

    def forward(self, x: Tensor) -> Tensor:
        turned = self.turn(self.pose(x.transpose(1, 2)).amax(2)).view(-1, 3, 3) + torch.eye(3)
        return self.head(self.body(torch.bmm(x, turned).transpose(1, 2)).amax(2))


@net("pointnet", "convolution", {"x": (1, 2048, 3)})
def pointnet() -> nn.Module:
    return PointNet()
