"""Functions over buffers: what a program is lowered to, well-formed from the moment that they are made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from eqsat.ir.cached import cached_property
from eqsat.ir.errors import BackendError, ParseError, ShapeError, TypeMismatch
from eqsat.ir.given import listed, text, told
from eqsat.ir.keywords import keyword_methods
from eqsat.ir.shown import card
from eqsat.ir.statements.check import check_function
from eqsat.ir.statements.sizes import function_symbols
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, Stmt, statements
from eqsat.ir.statements.structure import Structural
from eqsat.ir.statements.text import format_function
from eqsat.ir.terms.term import Term


@keyword_methods
@dataclass(frozen=True, eq=False)
class PrimFunc(Structural):
    """A function over buffers: `params` in order, `buffer_map` declares each of them, `body` is what it does.

    A parameter is declared by a BufferDecl, or by an eq.Buffer with its strides, separators and transforms.

    >>> from eqsat.ir.statements.stmt import For, Store
    >>> from eqsat.ir.terms.term import ax, load
    >>> i = ax(0, 4)
    >>> double = Store("y", (i,), load("x", [i], "int32") + load("x", [i], "int32"))
    >>> buffers = {n: BufferDecl(n, (4,), "int32") for n in ("x", "y")}
    >>> print(PrimFunc("twice", ("x", "y"), buffers, For(i, double)))
    func twice(x: int32[4], y: int32[4])
      for i0 in 4:
        y[i0] = x[i0] + x[i0]
    """

    name: str
    params: tuple[str, ...]
    buffer_map: Mapping[str, BufferDecl]
    body: Stmt
    note: str = field(default="")

    def __post_init__(self) -> None:
        text(self.name, "name of a function")
        if type(self.params) is not tuple:
            params = listed(self.params, f"parameters of function {self.name}", "names in a tuple")
            object.__setattr__(self, "params", tuple(params))
        if not isinstance(self.buffer_map, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch(f"function {self.name}", f"{told(self.buffer_map)} is no dict of declared buffers")
        if any(type(d) is not BufferDecl for d in self.buffer_map.values()):
            object.__setattr__(self, "buffer_map", {name: _declared(name, d) for name, d in self.buffer_map.items()})
        check_function(self.name, self.params, self.buffer_map, self.body)

    @cached_property
    def symbols(self) -> tuple[Term, ...]:
        """The sizes that a caller gives, by the shapes of arguments or beside them."""
        return function_symbols([self.buffer_map[p] for p in self.params], self.body)

    def _repr_html_(self) -> str:
        return card("", str(self))

    def __str__(self) -> str:
        return format_function(self.name, [self.buffer_map[p] for p in self.params], self.symbols, self.body)

    @staticmethod
    def parse(text: str, symbols: Mapping[str, Term] | None = None) -> PrimFunc:
        """The function of a text as `str` writes it; `symbols` are used in place of new ones of these names.

        >>> print(PrimFunc.parse("func f(x: int8[N])\\n  symbol N\\n  for i in N:\\n    x[i] = -x[i]"))
        func f(x: int8[N])
          symbol N
          for i in N:
            x[i] = -x[i]

        What follows `#` in a line is a remark. Notes of parameters are not in the text. Raises ParseError, naming the
        line, for anything else.
        """
        from eqsat.ir.statements.parse import parse_function

        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParseError("text of a function", f"{told(text)} is no text")
        if symbols is not None and not isinstance(symbols, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParseError("text of a function", f"symbols={told(symbols)} are no dict", "{'N': eq.symbol('N')}")
        return PrimFunc(*parse_function(text, symbols))

    def to_json(self) -> str:
        """The function as JSON text: everything, notes and the identity of symbols too.

        >>> f = PrimFunc.parse("func f(x: int8[4])\\n  x[0] = x[1]")
        >>> PrimFunc.from_json(f.to_json()) == f
        True
        """
        from eqsat.ir.statements.primfunc_json import function_to_json

        return function_to_json(self.name, [self.buffer_map[p] for p in self.params], self.body, self.note)

    @staticmethod
    def from_json(text: str) -> PrimFunc:
        """The function of a JSON text; ParseError for anything that `to_json` would not write.

        >>> PrimFunc.from_json(PrimFunc.parse("func f(x: int8[4])\\n  pass").to_json()).params
        ('x',)
        """
        from eqsat.ir.statements.primfunc_json import function_from_json

        return PrimFunc(*function_from_json(text))


def as_function(given: object, what: str) -> PrimFunc:
    """What was given for a function, which is one; TypeMismatch for anything else.

    >>> as_function("func f()", "call")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.TypeMismatch: call: 'func f()' is no function over buffers (eq.PrimFunc.parse reads one from text)
    """
    if not isinstance(given, PrimFunc):
        fix = "eq.PrimFunc.parse reads one from text" if isinstance(given, str) else "give an eq.PrimFunc"
        raise TypeMismatch(what, f"{told(given)} is no function over buffers", fix)
    return given


def _declared(name: str, buffer: Any) -> BufferDecl:
    """The declaration of a parameter that is given as an eq.Buffer."""
    from eqsat.ir.layouts.buffer import Buffer

    if isinstance(buffer, BufferDecl):
        return buffer
    if not isinstance(buffer, Buffer):
        problem = f"buffer {name} is {type(buffer).__name__}"
        raise TypeMismatch("function", problem, "declare it with a BufferDecl or an eq.Buffer")
    if buffer.data is not None:
        problem = f"parameter {name} shows the memory of {buffer.root.name}"
        raise ShapeError("function", problem, "declare the owner, and an Alias inside")
    return BufferDecl.from_buffer(buffer)


def require_rank(func: PrimFunc, ranks: Collection[int], target: str) -> None:
    """Refuse a function with a buffer whose number of physical axes a target does not have.

    >>> from eqsat.ir.statements.stmt import seq
    >>> f = PrimFunc("f", ("x",), {"x": BufferDecl("x", (4, 4), "int8")}, seq([]))
    >>> require_rank(f, (1,), "c")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.BackendError: function f on target c: buffer x: int8[4, 4] has 2 physical axes, the target takes 1 \
(flatten it, or choose a target with such memory)
    """
    local = [s.buffer for s in statements(func.body) if isinstance(s, (Alloc, Alias))]
    for decl in (*func.buffer_map.values(), *local):
        if len(decl.shape) not in ranks:
            takes = " or ".join(map(str, sorted(ranks)))
            problem = f"buffer {decl} has {len(decl.shape)} physical axes, the target takes {takes}"
            raise BackendError(
                f"function {func.name} on target {target}", problem, "flatten it, or choose a target with such memory"
            )
