"""Tensor programs: a DAG of Input, Constant, View, Compute and Opaque nodes with named inputs and outputs.

A View is a change of index, a Compute is a formula over indices; every other operator is an Opaque with a signature.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import numpy as np

from eqsat.ir.dtypes import BOOL, NDArray, as_dtype, unmasked
from eqsat.ir.errors import EqsatError, ShapeError, TypeMismatch
from eqsat.ir.keywords import keyword_methods
from eqsat.ir.shown import card
from eqsat.ir.tensors.hole_cells import reads_a_hole
from eqsat.ir.tensors.node_checks import check_index_terms, check_once, no_program
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor_methods import TensorMethods
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_shape, format_shape, output_axes, reduce_axes
from eqsat.ir.terms.term import IndexFunction, Term
from eqsat.ir.terms.walk import postorder, renumber_loads

COMBINERS = ("sum", "prod", "max", "min")
_serials = itertools.count(1)
Move = Callable[[NDArray], NDArray]


@dataclass(frozen=True)
class Tag:
    """What a Compute is called and its attributes: for display and for targets, never for layout reasoning."""

    name: str
    attrs: tuple[tuple[str, Any], ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        return dict(self.attrs).get(key, default)


class Node:
    """A node of a program. `operands` are the tensors it reads, `outputs` the (shape, dtype) of each result."""

    __slots__ = ("__weakref__", "operands", "outputs", "serial")

    def __init__(self, operands: Sequence[Tensor], outputs: Sequence[tuple[Shape, str]]) -> None:
        self.operands = tuple(operands)
        self.outputs = tuple(outputs)
        self.serial = next(_serials)

    def __reduce__(self) -> Any:
        kind = type(self).__name__
        raise EqsatError(f"pickling of a {kind}", "a node is a place in a program", "pickle an eq.Program")


class Input(Node):
    """A named argument of the program; a parameter is given once, for many calls."""

    __slots__ = ("name", "parameter")

    def __init__(self, name: str, shape: Shape, dtype: str, parameter: bool = False) -> None:
        super().__init__((), ((shape, dtype),))
        self.name = name
        self.parameter = parameter


class Constant(Node):
    """A literal array. `origin`: another constant whose elements it has, and what moves them, where that is known."""

    __slots__ = ("array", "name", "origin")

    def __init__(self, array: NDArray, name: str = "", origin: tuple[Constant, Move] | None = None) -> None:
        dtype = data_dtype(array.dtype)
        own: NDArray = np.array(array, dtype=dtype, order="C", copy=True if array.flags.writeable else None)
        own.flags.writeable = False
        super().__init__((), ((tuple(int(d) for d in own.shape), dtype),))
        self.array = own
        self.name = name
        self.origin = origin

    def moved(self, move: Move) -> Constant:
        """The constant that a move makes of this one."""
        return Constant(move(self.array), self.name, (self, move))


class View(Node):
    """out[i] = source[gather(i)] where valid(i), else fill(i); i are the terms ax(0, shape[0]), ax(1, shape[1]), ...

    `gather` runs from output to source. `fill` may load the source (as operand 0) and hold holes.
    """

    __slots__ = ("fill", "gather", "tag", "valid")

    def __init__(
        self,
        source: Tensor,
        shape: Shape,
        gather: Sequence[Term],
        valid: Term,
        fill: Term | None,
        tag: Tag | None = None,
    ) -> None:
        if len(gather) != len(source.shape):
            raise ShapeError("view", f"{len(gather)} gather terms for a source of rank {len(source.shape)}")
        if valid is not t.TRUE and fill is None:
            raise ShapeError("view", "a view that pads needs a fill")
        if fill is not None and fill.dtype != source.dtype:
            raise TypeMismatch("view", f"fill {fill} is {fill.dtype}, the source is {source.dtype}")
        super().__init__((source,), ((shape, source.dtype),))
        self.gather = tuple(t.as_index(g) for g in gather)
        self.valid = t.as_bool(valid)
        self.fill = None if valid is t.TRUE else fill
        self.tag = tag
        check_index_terms("view", [*self.gather, self.valid])
        parts = [*self.gather, self.valid, *(() if self.fill is None else (self.fill,))]
        check_once("view", tuple(parts), shape, (), ((source.shape, source.dtype),))

    @property
    def source(self) -> Tensor:
        return self.operands[0]

    @property
    def body(self) -> Term:
        """What stands in a cell, as the body of a Compute over the source says it."""
        inside = t.load(0, self.gather, self.source.dtype)
        return inside if self.fill is None else t.where(self.valid, inside, self.fill)


class Compute(Node):
    """out[i] = combine over k of body(i, k), with i = ax(n, shape[n]), k = red(n, reduce[n]).

    Loads name operands by number.
    Without reduce axes `combiner` is None. `ordered=True` forbids changing the order of a float reduction.
    """

    __slots__ = ("body", "combiner", "ordered", "reduce", "tag")

    def __init__(
        self,
        operands: Sequence[Tensor],
        shape: Shape,
        body: Term,
        reduce: Shape = (),
        combiner: str | None = None,
        tag: Tag | None = None,
        ordered: bool = False,
    ) -> None:
        if (combiner is None) != (not reduce):
            raise ShapeError("compute", f"combiner {combiner} with {len(reduce)} reduce axes")
        if combiner is not None and combiner not in COMBINERS:
            raise TypeMismatch("compute", f"combiner {combiner!r}", f"one of {', '.join(COMBINERS)}")
        if combiner is not None:
            t.check_real(combiner, body.dtype)
        if combiner in ("sum", "prod") and body.dtype == BOOL:
            raise TypeMismatch("compute", f"{combiner} of bool", "cast the body, or use max/min for any/all")
        if body.dtype == t.INDEX:
            raise TypeMismatch("compute", "the body is an index term", "eq.cast(body, 'int64') makes it data")
        check_once("compute", (body,), shape, reduce, tuple((x.shape, x.dtype) for x in operands))
        super().__init__(operands, ((shape, body.dtype),))
        self.body = body
        self.reduce = reduce
        self.combiner = combiner
        self.tag = tag
        self.ordered = ordered

    @property
    def shape(self) -> Shape:
        return self.outputs[0][0]


Impl = Callable[..., Any]


class OperatorImpl(ABC):
    """The `impl` of an operator whose name and attributes say all that it computes, as a format of models has them.

    Nodes of one name with equal attributes are the same operator; another attribute makes another one, which a plain
    function, that does not see attributes, would not. `runs`: whether it can be called here.
    """

    runs: bool = True

    @abstractmethod
    def __call__(self, *arrays: NDArray) -> Any:
        """The numpy outputs."""

    def native(self, *arrays: NDArray) -> Any:
        """The numpy outputs, as a compiled program is to have them: as fast as can be."""
        return self(*arrays)

    @abstractmethod
    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[tuple[Shape, str]], attrs: Mapping[str, Any]
    ) -> Opaque:
        """The operator of a node over other operands and with other attributes; EqsatError where there is none."""

    def as_formula(self, operands: Sequence[Tensor]) -> View | Compute | None:
        """The result as a formula of the operands, where the operator is known to be one; as a view, where it moves
        elements and no more."""
        return None

    def padded(
        self, node: Opaque, operands: Sequence[Tensor], pads: Sequence[tuple[int, int]], fill: Term | None
    ) -> Opaque:
        """The operator of a node over a first operand around which it adds cells that hold `fill` itself, so many
        before and after along each axis; EqsatError where there is none."""
        raise EqsatError(f"operator {node.op}", "does no padding of its own")


Definition = Callable[..., "Tensor | Sequence[Tensor]"]


class Opaque(Node):
    """An operator without a formula, with one or more outputs.

    `signature` says what a layout may do to it (None: a barrier); `impl` computes numpy outputs from numpy inputs;
    `definition` builds the same result from tensors, for evaluation and for targets that lack the operator;
    `pure=False` gives the node an identity: never merged, duplicated or moved.
    """

    __slots__ = ("attrs", "definition", "impl", "op", "pure", "signature")

    def __init__(
        self,
        op: str,
        operands: Sequence[Tensor],
        outputs: Sequence[tuple[Shape, str]],
        attrs: Mapping[str, Any] | None = None,
        signature: Signature | None = None,
        impl: Impl | None = None,
        definition: Definition | None = None,
        pure: bool = True,
    ) -> None:
        super().__init__(operands, outputs)
        if signature is not None:
            signature.check([x.shape for x in operands], [s for s, _ in outputs], op)
        self.op = op
        self.attrs = dict(attrs or {})
        self.signature = signature
        self.impl = impl
        self.definition = definition
        self.pure = pure

    @property
    def own_impl(self) -> bool:
        """Whether only a caller's function, which does not see attributes, says what the operator computes."""
        return self.impl is not None and self.definition is None and not isinstance(self.impl, OperatorImpl)


class Tensor(TensorMethods):
    """One output of a node, with numpy's operators, indices and methods; each builds a part of a program.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> x.T.shape, x[:, ::-2].shape, (x + 1).dtype
    ((3, 2), (2, 2), 'float32')

    As many integers or index terms as axes are a load, a term: the bodies of `eq.compute` are made of these.

    >>> eq.compute((3,), lambda i: x[0, i] * x[1, i]).shape
    (3,)
    """

    __slots__ = ("__weakref__", "index", "node")

    def __init__(self, node: Node, index: int = 0) -> None:
        self.node = node
        self.index = index

    @property
    def shape(self) -> Shape:
        """The extents, numbers or terms of symbols."""
        return self.node.outputs[self.index][0]

    @property
    def dtype(self) -> str:
        """The element type, as `float32`."""
        return self.node.outputs[self.index][1]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def key(self) -> tuple[int, int]:
        """Identity: the node's serial number and the output number."""
        return (self.node.serial, self.index)

    @property
    def source_key(self) -> str:
        """A name for the tensor that no other one of this process has."""
        return f"tensor {self.node.serial}.{self.index}"

    @property
    def name(self) -> str:
        """The name of an input; of another tensor, one made of its node's number."""
        node = self.node
        return node.name if isinstance(node, Input) else f"t{node.serial}"

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(f"len of {self.name}", "a tensor of rank 0 has no length")
        if not isinstance(self.shape[0], int):
            raise ShapeError(f"len of {self.name}", f"the extent {self.shape[0]} is no number", "use x.shape[0]")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeMismatch(f"bool({self.name})", "a tensor has no truth value until it is evaluated")

    def __setitem__(self, index: object, value: object) -> NoReturn:
        fix = "eq.where(mask, new, x), or eq.concatenate of parts"
        raise TypeMismatch(f"{self.name}[...] = ...", "a tensor is never written", fix)

    def __int__(self) -> NoReturn:
        raise TypeMismatch(
            f"int({self.name})", "a tensor has no value until it is evaluated", "x.astype, or eq.evaluate"
        )

    def __float__(self) -> NoReturn:
        fix = "x.astype, or eq.evaluate"
        raise TypeMismatch(f"float({self.name})", "a tensor has no value until it is evaluated", fix)

    def __eq__(self, other: object) -> bool:
        """Whether this is the same tensor, which sets and dicts ask; `eq.equal(x, y)` compares elements."""
        if isinstance(other, (int, float, np.generic, np.ndarray)):
            raise TypeMismatch(
                f"{self.name} == {other!r}", "asks which tensor it is", "eq.equal(x, y) compares elements"
            )
        return isinstance(other, Tensor) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self

    def __reduce__(self) -> Any:
        raise EqsatError(f"pickling of {self!r}", "a tensor is a place in a program", "pickle an eq.Program")

    def __repr__(self) -> str:
        kind = type(self.node).__name__.lower()
        return f"<{kind} {self.name} {self.dtype}{format_shape(self.shape)}>"

    def _repr_html_(self) -> str:
        return card(f"tensor {self.dtype}{format_shape(self.shape)}", str(as_program(self)))


@dataclass(frozen=True, eq=False, repr=False)
@keyword_methods
class Program:
    """Named inputs and outputs over a DAG of nodes.

    >>> import eqsat as eq
    >>> x = eq.input("x", (4,), "float32")
    >>> p = eq.Program([x], {"y": x.relu()})
    >>> list(p.outputs)
    ['y']
    """

    inputs: tuple[Tensor, ...]
    outputs: dict[str, Tensor]
    name: str = field(default="program")

    def __init__(self, inputs: Sequence[Tensor], outputs: Mapping[str, Tensor | Term], name: str = "program") -> None:
        object.__setattr__(self, "inputs", tuple(inputs))
        if not isinstance(outputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch("program", f"outputs are a {type(outputs).__name__}", 'name them: outputs={"y": y}')
        found = {k: tensor_of(y, f"output {k!r}") if isinstance(y, Term) else y for k, y in outputs.items()}
        object.__setattr__(self, "outputs", found)
        object.__setattr__(self, "name", name)
        names: set[str] = set()
        for name, y in self.outputs.items():
            if not isinstance(y, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeMismatch("program", f"output {name!r} is {y!r}, not a tensor")
        for x in self.inputs:
            if not isinstance(x, Tensor) or not isinstance(x.node, Input):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ShapeError("program", f"{x!r} is listed as an input but is computed", "list eq.input tensors")
            if x.node.name in names:
                raise ShapeError("program", f"two inputs are named {x.node.name!r}")
            names.add(x.node.name)
        known = {x.node.serial for x in self.inputs}
        for node in self.nodes():
            if isinstance(node, Input) and node.serial not in known:
                raise ShapeError("program", f"input {node.name!r} is used but not listed", "add it to inputs")

    def nodes(self) -> list[Node]:
        """All nodes, operands before users.

        >>> x = input("x", (2,), "float32")
        >>> [type(node).__name__ for node in Program([x], {"y": x.relu()}).nodes()]
        ['Input', 'Compute']
        """
        roots = tuple(x.key for x in self.outputs.values())  # the mapping is the caller's to see, and to change
        if self.__dict__.get("_order", (None,))[0] != roots:
            object.__setattr__(self, "_order", (roots, tuple(node_order(self.outputs.values()))))
        return list(self.__dict__["_order"][1])

    def named_nodes(self) -> Mapping[str, Sequence[Sequence[Node]]]:
        """What a user may name, each of it as nodes: here what makes an output, by the name of that.

        >>> x = input("x", (2,), "float32")
        >>> list(Program([x], {"y": x}).named_nodes())
        ['y']
        """
        return {name: ((x.node,),) for name, x in self.outputs.items()}

    def bind(self, values: Mapping[Any, Any]) -> Program:
        """The program with values for some of its symbols, given by name or by symbol (TVM: `bind_symbolic_vars`).

        >>> import eqsat as eq
        >>> n = eq.symbol("N")
        >>> p = eq.Program([x := eq.input("x", (n, 3), "float32")], {"y": x.permute_dims((1, 0))})
        >>> p.bind({"N": 4}).outputs["y"].shape, p.bind({n: 2 * n}).outputs["y"].shape
        ((3, 4), (3, 2*N))

        A value is a number within the bounds of its symbol, or a size of symbols; ShapeError for any other.
        """
        from eqsat.ir.tensors.bind import bind_program

        return bind_program(self, values)

    def __str__(self) -> str:
        from eqsat.ir.tensors.program_text import format_program

        return format_program(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card("", str(self))

    def __reduce__(self) -> Any:
        from eqsat.ir.tensors.program_json import program_from_json, program_to_json

        functions = {n: x.impl for n, x in enumerate(self.all_nodes()) if isinstance(x, Opaque) and x.impl is not None}
        return program_from_json, (program_to_json(self, drop_impl=True), functions)

    def all_nodes(self) -> list[Node]:
        """The nodes, inputs that nothing uses included: operands before users.

        >>> x, unused = input("x", (2,), "float32"), input("z", (2,), "float32")
        >>> program = Program([x, unused], {"y": x.relu()})
        >>> len(program.nodes()), len(program.all_nodes())
        (2, 3)
        """
        return list(node_order([*self.inputs, *self.outputs.values()]))


def node_order(roots: Any) -> Iterator[Node]:
    """Every node below the given tensors once, operands first."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(x.node, False) for x in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if node.serial in seen:
            continue
        if ready or not node.operands:
            seen.add(node.serial)
            yield node
            continue
        stack.append((node, True))
        stack.extend((x.node, False) for x in reversed(node.operands) if x.node.serial not in seen)


def as_program(program: Program | Tensor | Term) -> Program:
    """A program from a program, or from one tensor (its output is named `out`, its inputs are found)."""
    if isinstance(program, Program):
        return program
    if isinstance(program, Term):
        program = tensor_of(program, "program")
    if not isinstance(program, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise no_program(program)
    inputs = [Tensor(n) for n in node_order([program]) if isinstance(n, Input)]
    return Program(inputs, {"out": program})


def input(name: str, shape: Any, dtype: Any, parameter: bool = False) -> Tensor:
    """A named program input.

    >>> input("x", (1, 3, 8, 8), "float32")
    <input x float32(1, 3, 8, 8)>

    parameter: it is given once, for many calls, as weights are: what is computed from parameters alone costs nothing,
    and the `prepack()` of a result does it ahead.
    """
    if not name:
        raise ShapeError("input", f"name {name!r} is not a non-empty string")
    return Tensor(Input(name, as_shape(shape), data_dtype(dtype), parameter))


def is_ahead(node: Node) -> bool:
    """Whether the cells of a node are known before calls: a constant, or a parameter.

    >>> is_ahead(constant(1.5).node), is_ahead(input("x", (), "int8").node)
    (True, False)
    """
    return isinstance(node, Constant) or (isinstance(node, Input) and node.parameter)


def constant(array: Any, dtype: Any = None, name: str = "") -> Tensor:
    """A literal tensor from an array-like.

    >>> constant([1, 2, 3], "int8")
    <constant t... int8(3,)>
    """
    try:
        values: NDArray = np.array(unmasked(array), dtype=None if dtype is None else data_dtype(dtype))
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise TypeMismatch("constant", str(error)) from error
    return Tensor(Constant(values, name))


def data_dtype(dtype: Any) -> str:
    """The name of an element type of tensors."""
    name = as_dtype(dtype)
    if name == t.INDEX:
        raise TypeMismatch("tensor", "index is not a data type", "use int64")
    return name


def compute(shape: Any, fn: IndexFunction, reduce: Any = (), combiner: str = "sum", ordered: bool = False) -> Tensor:
    """A tensor from a formula: `fn(*spatial, *reduced)` is the body, loads are `x[i, j]`.

    >>> import eqsat as eq
    >>> a, b = eq.input("a", (2, 3), "float32"), eq.input("b", (3, 4), "float32")
    >>> eq.compute((2, 4), lambda i, j, k: a[i, k] * b[k, j], reduce=(3,)).shape
    (2, 4)
    """
    out, red = as_shape(shape), as_shape(reduce)
    body = cast("Callable[..., Any]", fn)(*output_axes(out), *reduce_axes(red))
    if not isinstance(body, Term):
        raise TypeMismatch("compute", f"the body is {body!r}, not a term", "eq.const(value, dtype) makes a constant")
    return Tensor(from_body(body, out, red, combiner if red else None, ordered=ordered))


def tensor_of(value: Term, what: str) -> Tensor:
    """The tensor of rank 0 that a load at a place is: `x[0, 1]`, or a term over such and symbols.

    >>> tensor_of(input("x", (2, 3), "int8")[0, 1], "output").shape
    ()
    """
    for node in postorder(value):
        if node.op in ("axis", "var"):
            raise TypeMismatch(f"{what} of {value}", "a term over axes is no tensor", "load x[i, j] inside eq.compute")
    return Tensor(from_body(t.cast_to(value, "int64") if value.dtype == t.INDEX else value, ()))


def from_body(
    body: Term,
    shape: Shape,
    reduce: Shape = (),
    combiner: str | None = None,
    tag: Tag | None = None,
    ordered: bool = False,
) -> Compute:
    """A Compute from a body whose loads name tensors: they are numbered in order of appearance."""
    numbers: dict[Any, int] = {}
    for node in postorder(body):
        if node.op == "load" and isinstance(node.payload, int):
            raise ShapeError("compute", f"{node} names an operand by number", "load from the tensor itself")
        if node.op == "load" and isinstance(node.payload, Tensor):
            numbers.setdefault(node.payload, len(numbers))
    numbered = renumber_loads(body, numbers)
    made = Compute(list(numbers), shape, numbered, reduce, combiner, tag, ordered)
    place = reads_a_hole(numbered, shape, reduce, made.operands)
    if place is not None:
        written = renumber_loads(place, dict(enumerate(made.operands)))
        raise TypeMismatch("compute", f"the index of {written} depends on a hole", "a hole has no known value")
    return made
