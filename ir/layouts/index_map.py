"""Index maps: where each logical index of a tensor lies in its physical layout, as a formula.

Shapes are given per call. `IndexMap` runs from logical to physical; the `gather` of a View runs the other way and is
the map's inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, cast

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.decide import Proof, decider
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, LayoutError, ParseError, ShapeError, TypeMismatch
from eqsat.ir.given import told, whole
from eqsat.ir.json_data import JsonReader, write_json
from eqsat.ir.keywords import keyword_methods
from eqsat.ir.layouts.map_claims import equivalent, on_box
from eqsat.ir.layouts.map_extent import NegativeOutput, from_zero
from eqsat.ir.layouts.map_text import check_output, check_separators, index_parameters, split_indices
from eqsat.ir.layouts.term_json import TermReader, TermWriter
from eqsat.ir.map_on_box import MapInverse, MapOnBox
from eqsat.ir.terms import term as t
from eqsat.ir.terms.bindings import bindings
from eqsat.ir.terms.evaluate import as_integers, evaluate_masked
from eqsat.ir.terms.shape import Shape, as_shape, format_shape
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, fresh_name, leaf_name, names_in, parse_expr
from eqsat.ir.terms.walk import free_variables, nodes_of, substitute, symbols

SEPARATOR_NAME = "AXIS_SEPARATOR"
_PRINTED_NODES = 10_000


class _AxisSeparator:
    """Stands between outputs of a map function where a further physical axis begins."""

    def __repr__(self) -> str:
        return SEPARATOR_NAME

    def __reduce__(self) -> str:
        return SEPARATOR_NAME


AXIS_SEPARATOR = _AxisSeparator()


@keyword_methods
@dataclass(frozen=True, eq=False, repr=False)
class IndexMap:
    """A map from logical to physical indices: names for the inputs, index terms over them for the outputs.

    >>> m = IndexMap.from_func(lambda n, c: [n, c // 4, c % 4])
    >>> print(m)
    n, c -> n, c // 4, c % 4
    >>> m.map_shape((2, 14)), m.map_indices((1, 13))
    ((2, 4, 4), (1, 3, 1))

    `axis_separators` are the positions of the first output of each further physical axis. A map without inputs and
    outputs is the identity of any rank. Two maps are equal when they are the same formulas, whatever their inputs are
    called; `is_equivalent_to` compares what they do.
    """

    names: tuple[str, ...]
    final_indices: tuple[Term, ...]
    axis_separators: tuple[int, ...] = ()
    inverse_index_map: IndexMap | None = None
    _variables: tuple[Term, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        if (not self.names) != (not self.final_indices):
            raise LayoutError(
                "index map", f"{len(self.names)} inputs and {len(self.final_indices)} outputs", "both or neither"
            )
        for name in self.names:
            if not name.isidentifier() or iskeyword(name) or name == SEPARATOR_NAME:
                raise LayoutError("index map", f"{name!r} cannot name an index")
        if len(set(self.names)) != len(self.names):
            raise LayoutError("index map", f"inputs {self.names} repeat a name")
        object.__setattr__(self, "_variables", tuple(t.var(n) for n in self.names))
        for output in self.final_indices:
            check_output(output, set(self._variables))
        separators = check_separators(self.axis_separators, len(self.final_indices))
        object.__setattr__(self, "axis_separators", separators)
        back, ranks = self.inverse_index_map, (len(self.final_indices), len(self.names))
        if back is not None and (len(back.names), len(back.final_indices)) != ranks:
            raise LayoutError(f"inverse_index_map of {self}", f"{back} has another number of inputs or outputs")

    # -- construction -------------------------------------------------------------------------------------------------

    @staticmethod
    def from_func(
        fn: Callable[..., Any], ndim: int | None = None, inverse_index_map: IndexMap | Callable[..., Any] | None = None
    ) -> IndexMap:
        """The map of a Python function from indices to a list of indices.

        >>> print(IndexMap.from_func(lambda *i, k: [*i, k // 4, k % 4], ndim=3))
        i0, i1, k -> i0, i1, k // 4, k % 4

        `ndim` is needed where the function takes `*indices`. Parameters with a default are not indices. A given inverse
        is verified when it is used, never trusted.
        """
        names, call = index_parameters(fn, ndim)
        result = call(tuple(t.var(n) for n in names))
        items = list(cast("Sequence[Any]", result)) if isinstance(result, (list, tuple)) else [result]
        outputs: list[Term] = []
        separators: list[int] = []
        for item in items:
            if item is AXIS_SEPARATOR:
                separators.append(len(outputs))
            else:
                outputs.append(t.as_index(item))
        if inverse_index_map is not None and not isinstance(inverse_index_map, IndexMap):
            inverse_index_map = IndexMap.from_func(inverse_index_map, len(outputs))
        if not outputs:
            names = ()
        return IndexMap(tuple(names), tuple(outputs), tuple(separators), inverse_index_map)

    @staticmethod
    def parse(text: str, symbols: Mapping[str, Term] | None = None) -> IndexMap:
        """Read a map from text; other names than inputs must be given as `symbols`.

        >>> IndexMap.parse("(i, j) -> j, i").map_indices((1, 2))
        (2, 1)

        Raises ParseError for anything else.
        """
        from eqsat.ir.layouts.pattern import is_pattern

        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParseError("index map", f"{told(text)} is no text", "such as 'i -> i//4, i%4'")
        sides = text.split("->")
        if len(sides) != 2:
            raise ParseError(f"index map {text!r}", "needs one '->', as in 'i -> i//4, i%4'")
        if is_pattern(text):
            fix = "x.rearrange(pattern), or x.layout_transform(pattern)"
            raise ParseError(f"index map {text!r}", "is an einops pattern, whose sizes are those of a tensor", fix)
        names = split_indices(sides[0], text)
        known = dict(symbols or {})
        for name in names:
            if not name.isidentifier() or iskeyword(name):
                raise ParseError(f"index map {text!r}", f"{name!r} is not a name for an index")
            known[name] = t.var(name)
        outputs: list[Term] = []
        separators: list[int] = []
        for piece in split_indices(sides[1], text):
            if piece == SEPARATOR_NAME:
                separators.append(len(outputs))
                continue
            try:
                output = parse_expr(piece, known)
            except TypeMismatch as error:
                raise ParseError(f"index map {text!r}", str(error)) from error
            for v in free_variables(output):
                if str(v) not in known:
                    raise ParseError(f"index map {text!r}", f"{v} is not an input", f"inputs are {', '.join(names)}")
            outputs.append(output)
        try:
            return IndexMap(tuple(names), tuple(outputs), tuple(separators))
        except (LayoutError, TypeMismatch) as error:
            raise ParseError(f"index map {text!r}", str(error)) from error

    @staticmethod
    def identity(rank: int) -> IndexMap:
        """The map of so many inputs that moves nothing.

        >>> print(IndexMap.identity(2))
        i0, i1 -> i0, i1
        """
        if whole(rank, "rank of an identity") < 0:
            raise ShapeError(f"identity of rank {rank}", "the rank is negative")
        names = tuple(f"i{n}" for n in range(rank))
        return IndexMap(names, tuple(t.var(n) for n in names))

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def initial_indices(self) -> tuple[Term, ...]:
        """The inputs as variables."""
        return self._variables

    @property
    def inputs(self) -> tuple[Term, ...]:
        """The inputs as variables.

        >>> IndexMap.parse("n, c -> n, c//4, c%4").inputs
        (n, c)
        """
        return self._variables

    @property
    def outputs(self) -> tuple[Term, ...]:
        """The outputs as terms over the inputs.

        >>> IndexMap.parse("n, c -> n, c//4, c%4").outputs
        (n, c // 4, c % 4)
        """
        return self.final_indices

    @property
    def is_table(self) -> bool:
        """Whether an output loads from a constant table, because no formula is known."""
        return bool(nodes_of("load", *self.final_indices))

    def __str__(self) -> str:
        return self._text(self.names, names_in(*self._variables, *self.final_indices), _PRINTED_NODES)

    def _text(self, inputs: Sequence[str], names: Mapping[Term, str], most: int | None) -> str:
        shown = [format_term(o, most, names) for o in self.final_indices]
        for place in reversed(self.axis_separators):
            shown.insert(place, SEPARATOR_NAME)
        return f"{', '.join(inputs) or '()'} -> {', '.join(shown) or '()'}"

    def text_among(self, sizes: Mapping[Term, str]) -> str:
        """The map as text beside others, where sizes have these names; an input of such a name gets another one.

        >>> from eqsat.ir.terms.term import sym
        >>> m, n = sym("N"), sym("N")
        >>> IndexMap.from_func(lambda i, j: [i * n + j]).text_among({m: "N", n: "N_1"})
        'i, j -> i*N_1 + j'
        """
        used = {sizes[s] for s in symbols(*self.final_indices) if s in sizes}
        inputs: list[str] = []
        for name in self.names:
            inputs.append(fresh_name(name, {*used, *inputs, *self.names}) if name in used else name)
        names = {**sizes, **dict(zip(self._variables, inputs, strict=True))}
        return self._text(inputs, names, None)

    def __repr__(self) -> str:
        return f"IndexMap({self})"

    def _repr_html_(self) -> str:
        from eqsat.ir.layouts.map_grid import map_card

        return map_card(self, "index map")

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        table = {v: t.var(f"_{n}") for n, v in enumerate(self._variables)}
        terms = tuple(substitute(o, table).digest for o in self.final_indices)
        back = None if self.inverse_index_map is None else self.inverse_index_map._key
        return len(self.names), terms, self.axis_separators, back

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexMap) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def to_json(self) -> str:
        """The map as JSON text.

        >>> m = IndexMap.parse("i -> i//4, i%4")
        >>> IndexMap.from_json(m.to_json()) == m
        True
        """
        writer = TermWriter()
        outputs = [writer.add(o) for o in self.final_indices]
        fields: dict[str, Any] = {
            "eqsat": "index_map", "version": 1, "inputs": list(self.names), "terms": writer.data(), "outputs": outputs,
        }  # fmt: skip
        if self.axis_separators:
            fields["axis_separators"] = list(self.axis_separators)
        if self.inverse_index_map is not None:
            fields["inverse"] = self.inverse_index_map.to_json()
        return write_json(fields)

    @staticmethod
    def from_json(text: str) -> IndexMap:
        """The map of a JSON text; ParseError for anything that `to_json` would not write.

        >>> m = IndexMap.parse("i -> i//4, i%4")
        >>> IndexMap.from_json(m.to_json()) == m
        True
        """
        reader = JsonReader("index map")
        fields = reader.header(reader.parse(text), "index_map")
        names = [reader.string(n, "input") for n in reader.items(reader.field(fields, "inputs"), "inputs")]
        terms = TermReader(reader.field(fields, "terms"), reader)
        outputs = [terms.term(n, "output") for n in reader.items(reader.field(fields, "outputs"), "outputs")]
        separators = reader.integers(fields.get("axis_separators", []), "axis separators", 1)
        back = fields.get("inverse")
        inverse = None if back is None else IndexMap.from_json(reader.string(back, "inverse"))
        try:
            return IndexMap(tuple(names), tuple(outputs), tuple(separators), inverse)
        except (LayoutError, TypeMismatch) as error:
            raise ParseError("JSON of index map", str(error)) from error

    # -- application --------------------------------------------------------------------------------------------------

    def map_indices(self, indices: Any) -> tuple[Any, ...]:
        """The physical index of a logical one: numbers give numbers, numpy arrays int64 arrays, terms terms.

        Indices are mathematical integers: arrays of any integer type are widened first, and a result that int64 does
        not hold is an array of Python integers.

        >>> IndexMap.parse("i -> i//4, i%4").map_indices([42])
        (10, 2)
        """
        items: list[Any] = list(cast("Sequence[Any]", indices)) if isinstance(indices, (list, tuple)) else [indices]
        self._check_rank(len(items), "indices")
        if not self.names:
            return tuple(items)
        if any(isinstance(i, np.ndarray) for i in items):
            return self._map_arrays(items)
        table = {v: t.as_index(i) for v, i in zip(self._variables, items, strict=True)}
        results = [substitute(o, table) for o in self.final_indices]
        if any(isinstance(i, Term) for i in items):
            return tuple(results)
        numbers: list[int] = []
        for output, result in zip(self.final_indices, results, strict=True):
            number = t.int_value(result)
            if number is None:
                value, bad = evaluate_masked([result], {}, load_table)[0]
                if bad is not None and bool(np.any(bad)):
                    raise EvaluationError(f"map {self} at {tuple(items)}", f"{output} is undefined")
                number = int(value)
            numbers.append(number)
        return tuple(numbers)

    def _map_arrays(self, items: Sequence[Any]) -> tuple[Any, ...]:
        arrays: list[NDArray] = []
        for i in items:
            array: NDArray = np.asarray(i)
            if array.dtype.kind not in "iu":
                raise TypeMismatch(f"map {self}", f"an index array is {array.dtype}, not integer")
            arrays.append(as_integers(array, "index of map", self))
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        results: list[NDArray] = []
        env = dict(zip(self._variables, arrays, strict=True))
        for output, (value, bad) in zip(
            self.final_indices, evaluate_masked(self.final_indices, env, load_table), strict=True
        ):
            if bad is not None and bool(np.any(bad)):
                raise EvaluationError(f"map {self}", f"{output} is undefined at one of the given indices")
            results.append(np.broadcast_to(value, shape).copy())
        return tuple(results)

    def map_shape(self, shape: Any) -> Shape:
        """The declared physical shape: every output's greatest value plus one, where a digit `% c` counts as c.

        >>> m = IndexMap.parse("i -> (i+2)//8, (i+2)%8")
        >>> m.map_shape((14,)), m.map_shape((16,))
        ((2, 8), (3, 8))

        Raises LayoutError where an output is negative (with the point) or has no known bound.
        """
        return self._on_box(as_shape(shape)).declared

    def map_ndarray(self, a: Any, pad_value: Any = None) -> NDArray:
        """The array in the physical layout; `pad_value` fills the cells that no element reaches.

        >>> IndexMap.parse("i -> i//4, i%4").map_ndarray(np.arange(6), pad_value=-1)
        array([[ 0,  1,  2,  3],
               [ 4,  5, -1, -1]])

        pad_value: a number of the array's dtype, eq.UNDEF, or a function of the physical index; None: it must not pad.
        """
        from eqsat.ir.layouts.physical import map_array

        return map_array(self, a, pad_value)

    def bind(self, values: Mapping[Any, Any]) -> IndexMap:
        """The map with values for some of its symbols, given by name or by symbol.

        >>> tile = t.sym("tile")
        >>> m = IndexMap.from_func(lambda i: [i // tile, i % tile])
        >>> print(m, "|", m.bind({"tile": 16}), "|", m.bind({tile: 2 * tile}))
        i -> i // tile, i % tile | i -> i // 16, i % 16 | i -> i // (2*tile), i % (2*tile)

        A value is a number within the bounds of its symbol, or a size of symbols; ShapeError for any other.
        """
        back = self.inverse_index_map
        known = symbols(*self.final_indices, *(() if back is None else back.final_indices))
        table = bindings(known, values, f"bind of {self}")
        outputs = tuple(substitute(o, table) for o in self.final_indices)
        if back is not None:
            outputs_back = tuple(substitute(o, table) for o in back.final_indices)
            back = IndexMap(back.names, outputs_back, back.axis_separators, back.inverse_index_map)
        return IndexMap(self.names, outputs, self.axis_separators, back)

    def on_shape(self, extents: Shape) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """Inputs and outputs over variables for a shape; these carry their extents where they are symbolic.

        >>> IndexMap.parse("i -> i//4, i%4").on_shape((8,))
        ((i,), (i // 4, i % 4))
        """
        self._check_rank(len(extents), "extents")
        if self.names and not any(isinstance(e, Term) for e in extents):
            return self._variables, self.final_indices
        names = self.names or tuple(f"i{n}" for n in range(len(extents)))
        variables = tuple(t.var(n, e if isinstance(e, Term) else None) for n, e in zip(names, extents, strict=True))
        if not self.names:
            return variables, variables
        table = dict(zip(self._variables, variables, strict=True))
        return variables, tuple(substitute(o, table) for o in self.final_indices)

    # -- inverse and verdicts -----------------------------------------------------------------------------------------

    def inverse(self, shape: Any) -> IndexMap:
        """The map from physical to logical indices of a bijective map.

        >>> print(IndexMap.parse("i -> i//4, i%4").inverse((16,)))
        p0, p1 -> 4*p0 + p1

        Raises LayoutError with two points of one cell, or with the first cell that no point reaches.
        """
        question = self._on_box(as_shape(shape))
        found = decider().map_inverse(question)
        if found.padding is not t.FALSE:
            where = "" if found.first_padding is None else f"; the first such cell is {found.first_padding}"
            raise LayoutError(
                f"inverse of {self} on {format_shape(as_shape(shape))}",
                f"not surjective: no index reaches the cells where {found.padding}{where}",
                "use non_surjective_inverse",
            )
        return _map_of(question, found)

    def non_surjective_inverse(self, shape: Any) -> tuple[IndexMap, Term]:
        """The inverse on the cells that are reached, and the predicate of the padding over its inputs.

        >>> inverse, padding = IndexMap.parse("i -> i//4, i%4").non_surjective_inverse((14,))
        >>> print(inverse, "|", padding)
        p0, p1 -> 4*p0 + p1 | 14 <= 4*p0 + p1
        """
        question = self._on_box(as_shape(shape))
        found = decider().map_inverse(question)
        return _map_of(question, found), substitute(found.padding, question.plain)

    def first_padding(self, shape: Any) -> tuple[int, ...] | None:
        """The first physical cell that no index reaches; None without padding, or where sizes are symbolic.

        >>> IndexMap.parse("i -> i//4, i%4").first_padding((6,))
        (1, 2)
        """
        return decider().map_inverse(self._on_box(as_shape(shape))).first_padding

    def is_injective(self, shape: Any) -> Proof:
        """Whether no two indices share a cell; the witness of a no holds both. Cells may be negative here.

        >>> IndexMap.parse("i, j -> i + j, i - j").is_injective((4, 3)).verdict
        'proved'
        """
        extents = as_shape(shape)
        try:
            return decider().map_injective(self._on_box(extents))
        except NegativeOutput:
            pass
        variables, outputs = self.on_shape(extents)
        axes = dict(zip(variables, extents, strict=True))
        plain = dict(zip(variables, self._variables, strict=True))
        moved = IndexMap(self.names, tuple(substitute(from_zero(o, axes), plain) for o in outputs))
        try:
            return decider().map_injective(moved._on_box(extents))
        except NegativeOutput:
            box = {v: (0, e) for v, e in axes.items() if isinstance(e, int)}
            return decider().injective(outputs, box)

    def is_bijective(self, shape: Any) -> Proof:
        """Whether every cell of the declared shape belongs to exactly one index.

        >>> m = IndexMap.parse("i -> i//4, i%4")
        >>> m.is_bijective((8,)).verdict, m.is_bijective((6,)).verdict
        ('proved', 'refuted')
        """
        return decider().map_bijective(self._on_box(as_shape(shape)))

    def is_equivalent_to(self, other: IndexMap | str, shape: Any) -> Proof:
        """Whether both maps send every index of a shape to the same place.

        >>> IndexMap.parse("i -> i + i").is_equivalent_to(IndexMap.parse("i -> 2*i"), (4,)).verdict
        'proved'
        """
        extents = as_shape(shape)
        first, second = self.on_shape(extents), _as_map(other).on_shape(extents)
        rename = dict(zip(second[0], first[0], strict=True))
        return equivalent(first[0], extents, first[1], [substitute(o, rename) for o in second[1]])

    def is_identity(self, shape: Any) -> Proof:
        """Whether the map moves nothing on a shape. That two maps cancel is `first.then(second).is_identity(shape)`.

        >>> pack = IndexMap.parse("n, c -> n, c//4, c%4")
        >>> pack.then(pack.inverse((2, 8))).is_identity((2, 8)).verdict
        'proved'
        >>> swizzle = IndexMap.parse("i, j -> i, j ^ i%8")
        >>> swizzle.then(swizzle).is_identity((64, 64)).verdict
        'proved'
        >>> n = t.sym("N")
        >>> roll = IndexMap.parse("i -> (i+1)%N", {"N": n})
        >>> print(roll.then(roll.inverse((n,))), roll.then(roll.inverse((n,))).is_identity((n,)).verdict)
        i -> i % N proved
        """
        return self.is_equivalent_to(IndexMap.identity(len(as_shape(shape))), shape)

    def then(self, second: IndexMap | str, shape: Any = None) -> IndexMap:
        """The composition: `second` after this map, simplified; with the shape of this map, for indices within it.

        >>> print(IndexMap.parse("i -> i//4, i%4").then(IndexMap.parse("a, b -> 4*a + b")))
        i -> i
        >>> pack = IndexMap.parse("c -> c//4, c%4")
        >>> print(pack.then(IndexMap.parse("o, i -> (4*o + i)//8, (4*o + i)%8")))
        c -> c // 8, c % 8

        The declared shape of a tensor is fixed when a map is applied: a simpler map may declare a smaller one.
        """
        second = _as_map(second)
        if not self.names:
            return second
        if not second.names:
            return self
        second._check_rank(len(self.final_indices), "outputs of the first map")
        composed = IndexMap(self.names, second.map_indices(self.final_indices), second.axis_separators)
        return composed._simplified({} if shape is None else composed._box(as_shape(shape)))

    def simplify(self, shape: Any) -> IndexMap:
        """The same map on a shape, each output with no more operations than before.

        >>> print(IndexMap.parse("i, j -> (i*8 + j)//8, (i*8 + j)%8, i//4").simplify((4, 8)))
        i, j -> i, j, 0

        It sends every index of the shape to the same place; outside of the shape it may differ, and the shape it
        declares may be smaller (`i % 4` on 3 is `i`).
        """
        return self._simplified(self._box(as_shape(shape)))

    # -- internals ----------------------------------------------------------------------------------------------------

    def _check_rank(self, rank: int, what: str) -> None:
        if self.names and rank != len(self.names):
            raise ShapeError(f"map {self}", f"{rank} {what} for {len(self.names)} inputs")

    def _box(self, extents: Shape) -> dict[Term, tuple[int, int]]:
        """The ranges of the inputs whose extents are numbers; none where one is empty, as nothing follows there."""
        self._check_rank(len(extents), "extents")
        sizes = [e for e in extents if isinstance(e, int)]
        if 0 in sizes:
            return {}
        return {v: (0, e) for v, e in zip(self._variables, extents, strict=False) if isinstance(e, int)}

    def _simplified(self, box: dict[Term, tuple[int, int]]) -> IndexMap:
        outputs = tuple(decider().shortest(self.final_indices, box))
        return IndexMap(self.names, outputs, self.axis_separators, self.inverse_index_map)

    def _on_box(self, extents: Shape) -> MapOnBox:
        return on_box(self, tuple(t.as_index(e) for e in extents))


def _as_map(given: Any) -> IndexMap:
    """A map, or the one that a text is."""
    return given if isinstance(given, IndexMap) else IndexMap.parse(given)


def _map_of(question: MapOnBox, found: MapInverse) -> IndexMap:
    physical, plain = question.physical, question.plain
    if not found.values and not physical:
        return IndexMap((), ())
    return IndexMap(tuple(leaf_name(p) for p in physical), tuple(substitute(v, plain) for v in found.values))
