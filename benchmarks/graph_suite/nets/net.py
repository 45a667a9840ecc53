# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""What a network of the suite is: how it is made, what it is fed, and which dimensions may stay open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Net:
    """A network: its family, its maker, the shapes (and for indices the sizes of the table) of its inputs.

    `dynamic` names the axes of each input that a dynamic export leaves open.
    """

    name: str
    family: str
    make: Callable[[], nn.Module]
    inputs: Mapping[str, Shape]
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict[str, Mapping[int, str]])

    def module(self) -> nn.Module:
        """The network with seeded weights: normalisations have seeded statistics too, so that nothing is trivial."""
        torch.manual_seed(sum(map(ord, self.name)))
        made = self.make().eval()
        for part in made.modules():
            if isinstance(part, nn.BatchNorm2d | nn.BatchNorm1d):
                nn.init.uniform_(part.running_mean, -0.2, 0.2)
                nn.init.uniform_(part.running_var, 0.5, 1.5)
                nn.init.uniform_(part.weight, 0.5, 1.5)
                nn.init.uniform_(part.bias, -0.2, 0.2)
        return made

    def sample(self) -> tuple[Tensor, ...]:
        """Seeded inputs."""
        generator = torch.Generator().manual_seed(7)
        return tuple(
            torch.randint(0, self.tokens[name], shape, generator=generator)
            if name in self.tokens
            else torch.randn(shape, generator=generator)
            for name, shape in self.inputs.items()
        )


NETS: dict[str, Net] = {}


def net(
    name: str,
    family: str,
    inputs: Mapping[str, Shape],
    *,
    tokens: Mapping[str, int] | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """Add the network that a function makes to the suite."""

    def add(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        assert name not in NETS, name
        NETS[name] = Net(name, family, make, inputs, tokens or {}, dynamic or {})
        return make

    return add


def conv(
    cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Sequential:
    """Convolution, batch normalisation, activation."""
    layers: Sequence[nn.Module] = [
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU() if act is None else act,
    ]
    return nn.Sequential(*layers)


class Lambda(nn.Module):
    """A module of a function of tensors."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Mlp(nn.Sequential):
    """Two linear layers with GELU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
