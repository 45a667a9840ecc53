"""Which parts of two graphs differ: regions between values that are the same on both sides.

Two values are one class where the same node makes them of operands of one class. Where a changed part comes before,
that never happens again; so a node that occurs once on each side with the same fingerprint is taken for the same node
too (an anchor), on the condition that its operands are equal pair by pair: each such pair is then a claim to be
checked. All claims together imply, operands first, that the outputs are equal. A claim that turns out wrong proves
nothing yet, since a region is tried on all values, also those that its inputs never have: the anchor is dropped and the
region grows, in the end up to the inputs of the program.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eqsat.checking.graph import Graph

Pair = tuple[int, int]
CANDIDATES = 16
"""Of how many nodes that look the same, in their order, the best is taken for an anchor."""


@dataclass(frozen=True)
class Region:
    """Values claimed equal (before, after), and on each side the vertices that lie between them and the boundary.

    `boundary` are classes, each with one value of it per side (-1: not used there); `reads` are all values of these
    classes, per side, with their place in the boundary. `wanted` are, for each pair, the after-vertices that are
    anchors if it is equal. Constants whose content is in `free` occur on both sides and may have any numbers, as the
    boundary. `whole` regions reach down to the inputs. `key` is equal for regions of equal structure.
    """

    pairs: tuple[Pair, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    boundary: tuple[Pair, ...]
    reads: tuple[Mapping[int, int], Mapping[int, int]]
    wanted: tuple[frozenset[int], ...]
    free: Mapping[Hashable, int] = field(default_factory=dict[Hashable, int])
    key: Hashable = None
    whole: bool = False


@dataclass
class _Claim:
    """Two values that are equal if `wanted` are anchors; `own` where the values themselves are taken for one class."""

    pair: Pair
    own: bool = False
    wanted: set[int] = field(default_factory=set[int])
    through: frozenset[int] = frozenset()  # classes that are walked through


@dataclass
class _Looks:
    """What of the first graph a node of the second may be, by how it looks: nodes, the values that they compute, and
    those that are only moved; and the nodes that one of the second is."""

    nodes: dict[Hashable, list[int]] = field(default_factory=dict[Hashable, list[int]])
    values: dict[Hashable, list[int]] = field(default_factory=dict[Hashable, list[int]])
    views: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    taken: set[int] = field(default_factory=set[int])


class Planner:
    """Finds the changed regions of a graph."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self.before, self.after = before, after
        self.prints = before.fingerprints(), after.fingerprints()
        self.below: list[int] = []  # of each before-vertex, computed when first needed
        self.classes: tuple[list[int], list[int]] = ([], [])
        self.members: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.whole = False
        self.anchors: set[int] = set()  # after-vertices
        self.claims: dict[Pair, _Claim] = {}
        self.regions: list[Region] = []

    def plan(self, dropped: Iterable[int] = (), whole: bool = False) -> list[Region]:
        """The regions, given after-vertices that are no anchors; `whole` ones reach from the inputs to the outputs."""
        self.whole = whole
        self.claims = self._number(set(dropped), not whole)
        self.regions = self._regions(list(self.claims.values()))
        return self.regions

    def widened(self, failed: Iterable[tuple[Region, Iterable[int]]]) -> set[int]:
        """The anchors to drop so that regions in which some pairs (by number) differ are tried in another way: those
        that are anchors because of these pairs, else those at the boundary. What reads a dropped anchor is tried again
        before it is judged."""
        dropped: set[int] = set()
        makers = {c: n for n in self.anchors for c in (self.classes[1][v] for v in self.after.vertices[n].outputs)}
        for region, pairs in sorted(failed, key=lambda item: max(self.after.maker[a] for _, a in item[0].pairs)):
            read = {self.classes[side][v] for side in (0, 1) for v in region.reads[side]}
            border = {makers[c] for c in read if c in makers}
            if not border & dropped:
                dropped |= {n for k in pairs for n in region.wanted[k]} or border
        return dropped

    def split(self, region: Region) -> list[Region]:
        """A region of several pairs as one region for each."""
        return [self._region([self.claims[pair]]) for pair in region.pairs] if len(region.pairs) > 1 else []

    # -- classes ------------------------------------------------------------------------------------------------------

    def _number(self, dropped: set[int], anchors: bool) -> dict[Pair, _Claim]:
        table: dict[Hashable, int] = {}
        own: list[int] = []
        looks = _Looks()
        counts: dict[Hashable, int] = {}
        numbers = 0
        users: dict[Hashable, int] = {}
        for n, vertex in enumerate(self.before.vertices):
            key = _key(vertex.exact, [own[v] for v in vertex.operands], vertex.pure, counts)
            known = table.get(key)
            if known is None:
                known = table[key] = numbers
                numbers += len(vertex.outputs)
                users[key] = n
            own.extend(range(known, known + len(vertex.outputs)))
            if anchors and not vertex.leaf:
                self._note(n, looks)
        other: list[int] = []
        self.anchors.clear()
        claims: dict[Pair, _Claim] = {}
        counts.clear()
        for n, vertex in enumerate(self.after.vertices):
            key = _key(vertex.exact, [other[v] for v in vertex.operands], vertex.pure, counts)
            known = table.get(key)
            if known is not None:
                if key in users:
                    looks.taken.add(users[key])
            elif anchors and (vertex.added or not (vertex.clear or vertex.leaf or n in dropped)):
                partner = None if vertex.added else self._partner(n, looks, own, other)
                value = None if partner is not None else self._meant(n, looks)
                if value is not None and n not in dropped:
                    known = own[value]
                    self.anchors.add(n)
                    pair = value, vertex.outputs[0]
                    claims.setdefault(pair, _Claim(pair, own=True)).wanted.add(n)
                if partner is not None:
                    looks.taken.add(partner)
                    self.anchors.add(n)
                    twin = self.before.vertices[partner]
                    known = own[twin.outputs[0]] if twin.outputs else None
                    for b, a in zip(twin.operands, vertex.operands, strict=True):
                        if own[b] != other[a]:
                            claims.setdefault((b, a), _Claim((b, a))).wanted.add(n)
            if known is None:
                known = numbers
                numbers += len(vertex.outputs)
            table.setdefault(key, known)
            other.extend(range(known, known + len(vertex.outputs)))
        for name, b in self.before.outputs.items():
            a = self.after.outputs[name]
            if own[b] != other[a]:
                claims.setdefault((b, a), _Claim((b, a)))
        self.classes = own, other
        self.members = _first(own), _first(other)
        return claims

    def _note(self, n: int, looks: _Looks) -> None:
        vertex = self.before.vertices[n]
        keys = [(self.prints[0][v], self.before.types[v]) for v in vertex.outputs]
        if not vertex.clear:
            looks.nodes.setdefault(self._looks(0, n), []).append(n)
            for key, v in zip(keys, vertex.outputs, strict=True):
                looks.values.setdefault(key, []).append(v)
        elif len(vertex.outputs) == 1:
            looks.views[keys[0]] = vertex.outputs[0]

    def _looks(self, side: int, n: int) -> Hashable:
        graph = (self.before, self.after)[side]
        vertex = graph.vertices[n]
        types = tuple(graph.types[v] for v in vertex.operands)
        prints = tuple(self.prints[side][v] for v in vertex.outputs)
        return vertex.exact, types, tuple(graph.types[v] for v in vertex.outputs), prints

    def _partner(self, n: int, looks: _Looks, own: list[int], other: list[int]) -> int | None:
        """The before-vertex that looks the same; of several, one with the most operands of the same class."""
        operands = [other[v] for v in self.after.vertices[n].operands]
        best: tuple[int, int] | None = None
        free = looks.nodes.get(self._looks(1, n), [])
        while free and free[0] in looks.taken:
            free.pop(0)
        for candidate in free[:CANDIDATES]:
            if candidate not in looks.taken:
                theirs = [own[v] for v in self.before.vertices[candidate].operands]
                same = sum(x == y for x, y in zip(operands, theirs, strict=True))
                if best is None or same > best[0]:
                    best = same, candidate
        return None if best is None else best[1]

    def _meant(self, n: int, looks: _Looks) -> int | None:
        """A before-value that may be what a node makes: moved to its place or, for a reshape that was added, computed;
        of several that are computed the first one, which is no other's then."""
        vertex = self.after.vertices[n]
        if len(vertex.outputs) != 1:
            return None
        a = vertex.outputs[0]
        key = self.prints[1][a], self.after.types[a]
        if not vertex.added:
            b = looks.views.get(key)
            return b if b is not None and self.before.cut[b] and self.after.cut[a] else None
        some = looks.values.get(key, [])
        while some and self.before.maker[some[0]] in looks.taken:
            some.pop(0)
        return some.pop(0) if some else None

    # -- regions ------------------------------------------------------------------------------------------------------

    def _regions(self, claims: list[_Claim]) -> list[Region]:
        cones: list[tuple[set[int], set[int]]] = []
        for claim in claims:
            claim.through = self._through(claim)
            left, right = (self._cone(k, [claim.pair[k]], claim.through, claim.own)[0] for k in (0, 1))
            cones.append((left, right))
        groups = list(range(len(claims)))

        def find(k: int) -> int:
            while groups[k] != k:
                k = groups[k]
            return k

        first: dict[tuple[int, int], int] = {}
        for k, cone in enumerate(cones):
            for side in (0, 1):
                for n in cone[side]:
                    if (self.before, self.after)[side].vertices[n].leaf:
                        continue
                    groups[find(k)] = find(first.setdefault((side, n), k))
        merged: dict[int, list[_Claim]] = {}
        for k, claim in enumerate(claims):
            merged.setdefault(find(k), []).append(claim)
        regions: list[Region] = []
        for group in merged.values():
            region = self._region(group)
            # What a claim is about must not be taken as given in the same region.
            given = any(claim.own and claim.pair[k] in region.reads[k] for claim in group for k in (0, 1))
            regions.extend([self._region([claim]) for claim in group] if given else [region])
        return regions

    def _cone(
        self, side: int, roots: Iterable[int], through: Collection[int], own: bool = False
    ) -> tuple[set[int], set[int]]:
        """The vertices from some values down to shared classes, and the values of these; `own` roots are no end."""
        graph, stack = (self.before, self.after)[side], list(roots)
        inside: set[int] = set()
        frontier: set[int] = set()
        if own:
            inside.update(graph.maker[v] for v in stack)
            stack = [x for v in stack for x in graph.at(v).operands]
        self._walk(side, stack, through, inside, frontier)
        return inside, frontier

    def _walk(
        self, side: int, stack: list[int], through: Collection[int], inside: set[int], frontier: set[int]
    ) -> None:
        """Adds to a cone what is below some values."""
        graph, classes, others = (self.before, self.after)[side], self.classes[side], self.members[1 - side]
        while stack:
            value = stack.pop()
            c = classes[value]
            leaf = graph.at(value).leaf
            shared = not self.whole and c in others and c not in through and graph.cut[value]
            if leaf == "input" or (shared and leaf != "constant"):
                frontier.add(value)
            elif graph.maker[value] not in inside:
                inside.add(graph.maker[value])
                stack.extend(graph.at(value).operands)

    def _through(self, claim: _Claim) -> frozenset[int]:
        """Shared classes to walk through, where one side stops at what the other side computes from another class."""
        through: set[int] = set()
        cones = [self._cone(k, [claim.pair[k]], through, claim.own) for k in (0, 1)]
        while True:
            left, right = ({self.classes[k][v] for v in cones[k][1]} for k in (0, 1))
            more = self._computed(left - right, right - left) | self._computed(right - left, left - right)
            if not more:
                return frozenset(through)
            # The last one only: without it, another may no longer be in the way.
            last = max(more, key=lambda c: self.before.maker[self.members[0][c]])
            through.add(last)
            for k, (inside, frontier) in enumerate(cones):
                opened = [v for v in frontier if self.classes[k][v] == last]
                frontier.difference_update(opened)
                self._walk(k, opened, through, inside, frontier)

    def _computed(self, classes: set[int], of: set[int]) -> frozenset[int]:
        """The classes that are computed from one of some others."""
        if not classes or not of:
            return frozenset()
        sources = 0
        for c in of:
            if c in self.members[0]:
                sources |= 1 << self.before.maker[self.members[0][c]]
        self.below = self.below or self.before.ancestors()
        found: set[int] = set()
        for c in classes:
            if c in self.members[0] and not self.before.is_leaf(self.members[0][c]):
                n = self.before.maker[self.members[0][c]]
                if self.below[n] & sources & ~(1 << n):
                    found.add(c)
        return frozenset(found)

    def _region(self, claims: list[_Claim]) -> Region:
        through = frozenset(c for claim in claims for c in claim.through)
        pairs = tuple(claim.pair for claim in claims)
        (before, left), (after, right) = (self._cones(k, claims, through) for k in (0, 1))
        places: dict[int, int] = {}
        for c in sorted({self.classes[0][v] for v in left} | {self.classes[1][v] for v in right}):
            places[c] = len(places)
        reads = (
            {v: places[self.classes[0][v]] for v in sorted(left)},
            {v: places[self.classes[1][v]] for v in sorted(right)},
        )
        firsts = _first_of(reads[0]), _first_of(reads[1])
        boundary = [(firsts[0].get(k, -1), firsts[1].get(k, -1)) for k in range(len(places))]
        region = Region(
            pairs, tuple(sorted(before)), tuple(sorted(after)), tuple(boundary), reads,
            tuple(frozenset(claim.wanted) for claim in claims), self._free(before, after),
        )  # fmt: skip
        return replace(region, key=self._shape_of(region), whole=self.whole)

    def _cones(self, side: int, claims: Sequence[_Claim], through: frozenset[int]) -> tuple[set[int], set[int]]:
        """The vertices and the boundary of several claims; what one claim is about may bound another."""
        inside: set[int] = set()
        frontier: set[int] = set()
        for own in (False, True):
            roots = [claim.pair[side] for claim in claims if claim.own == own]
            vertices, values = self._cone(side, roots, through, own)
            inside |= vertices
            frontier |= values
        return inside, frontier

    def _free(self, before: set[int], after: set[int]) -> dict[Hashable, int]:
        """Constants that occur on both sides, numbered."""
        left = [self.before.vertices[n].content for n in sorted(before)]
        right = {self.after.vertices[n].content for n in after} - {None}
        return {} if self.whole else {c: k for k, c in enumerate(dict.fromkeys(c for c in left if c in right))}

    def with_numbers(self, region: Region) -> Region:
        """A region in which all constants have the numbers that they have: some may be made of others."""
        bound = replace(region, free={})
        return replace(bound, key=self._shape_of(bound))

    def _shape_of(self, region: Region) -> Hashable:
        """The structure of a region, values numbered in order of appearance."""
        parts: list[Hashable] = []
        for side, inside in ((0, region.before), (1, region.after)):
            graph, classes = (self.before, self.after)[side], self.classes[side]
            local: dict[int, Hashable] = {}

            def number(value: int, side: int = side, local: dict[int, Hashable] = local) -> Hashable:
                if value in local:
                    return local[value]
                return -1 - region.reads[side][value]

            for n in inside:
                vertex = graph.vertices[n]
                # Leaves bring their own content; an impure vertex is told from its like by its class.
                known = None if vertex.pure else classes[vertex.outputs[0]]
                operands = tuple((number(v), graph.types[v]) for v in vertex.operands)
                what = vertex.exact if vertex.content not in region.free else ("free", region.free[vertex.content])
                parts.append((side, what, operands, tuple(graph.types[v] for v in vertex.outputs), known))
                for v in vertex.outputs:
                    local[v] = (len(parts), v - vertex.outputs[0])
            ends = [pair[side] for pair in region.pairs]
            parts.append(tuple((number(v), graph.types[v]) for v in ends))
        order = tuple(self.before.types[b] if b >= 0 else self.after.types[a] for b, a in region.boundary)
        return (*parts, order)


def _key(exact: Hashable, operands: list[int], pure: bool, counts: dict[Hashable, int]) -> Hashable:
    """What makes two vertices the same value; one that is not pure is the same only as the one in its place."""
    if pure:
        return exact, tuple(operands)
    place = counts[exact] = counts.get(exact, -1) + 1
    return exact, tuple(operands), "place", place


def _first(classes: list[int]) -> dict[int, int]:
    """For each class its first value."""
    found: dict[int, int] = {}
    for value, c in enumerate(classes):
        found.setdefault(c, value)
    return found


def _first_of(places: Mapping[int, int]) -> dict[int, int]:
    """For each place its first value."""
    found: dict[int, int] = {}
    for value, place in places.items():
        found.setdefault(place, value)
    return found
