"""The labels of a formula as dimensions that are there already: of its result, or of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.extraction.groups import Groups, split_labels
from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.shape import Shape
from eqsat.operators.interned import Form
from eqsat.operators.labels import Label


def plain(form: Form) -> Groups:
    """One dimension per label; operands that follow the output's order are aligned with it by extents of 1."""
    output = [(i,) for i in form.outputs[0]]
    operands = [_aligned([(i,) for i in order], output) for order in form.operands]
    return Groups(form.labels, output, operands)


def _aligned(dims: list[tuple[int, ...]], output: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Insert unit dimensions so that each dimension stands where the output has it, if the order agrees."""
    places = [output.index(d) if d in output else -1 for d in dims]
    if -1 in places or places != sorted(places) or not dims:
        return dims
    first = places[0]
    return [output[n] if n in places else () for n in range(first, len(output))]


def fit(form: Form, shape: Shape, tensors: Sequence[Tensor]) -> Groups | None:
    """The labels regrouped so that the output has this shape and every operand broadcasts against it."""
    cut = split_labels(form.labels, form.outputs[0], shape)
    if cut is None:
        return None
    labels, dims, pieces = cut
    output = [tuple(d) for d in dims]
    if any(len(d) > 1 and any(labels[i].name for i in d) for d in output):
        return None
    operands: list[list[tuple[int, ...]]] = []
    for base, tensor in zip(form.operands, tensors, strict=True):
        flat = [n for i in base for n in pieces.get(i, [i])]
        groups: list[tuple[int, ...]] = []
        while flat:
            group = next((d for d in output if d and list(d) == flat[: len(d)]), (flat[0],))
            if any(group[0] in d for d in output) and group not in output:
                return None
            groups.append(group)
            flat = flat[len(group) :]
        follows = all(g in output for g in groups)
        aligned = _aligned_with_units(groups, output, tensor.rank) if follows else groups
        if aligned is None:
            return None
        operands.append(aligned)
    return Groups(labels, output, operands)


def fit_reduced(form: Form, shape: Shape) -> Groups | None:
    """The labels of a reduction regrouped by the operand's shape: every axis is kept or reduced as a whole."""
    order = form.operands[0]
    cut = common_refinement([form.labels[i].extent for i in order], [as_size(d) for d in shape])
    if cut is None or any(form.labels[i].name for i in order):
        return None
    labels = list(form.labels)
    dims: list[list[int]] = [[] for _ in shape]
    kept: list[set[bool]] = [set() for _ in shape]
    for piece, dim, extent in cut:
        labels.append(replace(labels[order[piece]], extent=extent))
        dims[dim].append(len(labels) - 1)
        kept[dim].add(order[piece] in form.outputs[0])
    for dim, group in enumerate(dims):
        if not group:  # an axis of extent 1 is kept
            labels.append(Label("map", 1))
            group.append(len(labels) - 1)
            kept[dim].add(True)
    rest = [order[piece] for piece, _, _ in cut if order[piece] in form.outputs[0]]
    if any(len(k) > 1 for k in kept) or list(dict.fromkeys(rest)) != list(form.outputs[0]):
        return None
    output = [tuple(d) for d, k in zip(dims, kept, strict=True) if True in k]
    return Groups(labels, output, [[tuple(d) for d in dims]])


def _aligned_with_units(
    groups: list[tuple[int, ...]], output: Sequence[tuple[int, ...]], rank: int
) -> list[tuple[int, ...]] | None:
    """As `_aligned`, with leading units as well where the operand already has that rank or misses no axis."""
    places = [output.index(g) for g in groups]
    if places != sorted(places):
        return None
    everything = len(places) == sum(1 for g in output if g)
    first = 0 if rank == len(output) or everything else places[0] if places else len(output)
    return [output[n] if n in places else () for n in range(first, len(output))]
