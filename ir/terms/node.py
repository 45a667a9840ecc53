"""The node of scalar terms: immutable, interned, typed; its operators build by the laws of `eqsat.ir.terms.term`."""

from __future__ import annotations

import hashlib
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, NoReturn, Union, cast

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.locks import fork_safe
from eqsat.ir.shown import card

TermLike = Union["Term", int, float, bool, "np.generic[Any]"]

# A function of index terms; the arities are spelled out, so that a lambda's parameters are known to be terms.
IndexFunction = (
    Callable[[], Any]
    | Callable[["Term"], Any]
    | Callable[["Term", "Term"], Any]
    | Callable[["Term", "Term", "Term"], Any]
    | Callable[["Term", "Term", "Term", "Term"], Any]
    | Callable[["Term", "Term", "Term", "Term", "Term"], Any]
    | Callable[["Term", "Term", "Term", "Term", "Term", "Term"], Any]
    | Callable[["Term", "Term", "Term", "Term", "Term", "Term", "Term"], Any]
    | Callable[["Term", "Term", "Term", "Term", "Term", "Term", "Term", "Term"], Any]
)

INDEX_BINARY = ("floordiv", "mod", "truncdiv", "truncmod", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr")
DATA_BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "truncdiv", "truncmod", "min", "max", "pow")
BITWISE = ("bitand", "bitor", "bitxor", "shl", "shr")
COMPARE = ("lt", "le", "eq", "ne")
FLOAT_UNARY = (
    "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
    "atanh", "floor", "ceil", "round", "trunc",
)  # fmt: skip
FLOAT_TEST = ("isnan", "isinf")
MAX_SHIFT = 4096  # further shifts of an index are undefined: a short text must not ask for all the memory

# Serials are hashes too: far above the numbers that may stand beside terms in one set, whose == would build a term.
_serials = itertools.count(1 << 40)
_interned: dict[tuple[Any, ...], _Reference] = {}
_dropped: list[weakref.ref[Term]] = []
_lock = fork_safe(threading.RLock())


class SymbolFacts(NamedTuple):
    """The payload of a symbolic size. `key` tells symbols of one name apart, in every process and file."""

    name: str
    lower: int | None
    upper: int | None
    multiple_of: int
    key: str


@cache
def _laws() -> Any:
    """The module whose functions the operators call; it needs this one to be defined."""
    from eqsat.ir.terms import term

    return term


class Lifted:
    """The base of what has elements: terms leave an operator between the two to it."""

    __slots__ = ()


class Term:
    """A scalar expression. Build terms with operators and the functions of this package, never with the constructor.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> str(i // 4 * 4 + i % 4)
    'i // 4 * 4 + i % 4'
    """

    __slots__ = ("__weakref__", "args", "dtype", "known_digest", "known_order", "lanes", "op", "payload", "serial")
    __array_ufunc__ = None  # numpy leaves `numpy.int64(3) + term` to the term

    op: str
    args: tuple[Term, ...]
    payload: Any
    dtype: str
    lanes: int
    serial: int
    known_digest: bytes | None
    known_order: bytes | None

    @property
    def digest(self) -> bytes:
        """A hash of the content, equal in every process; symbols count by identity. Computed when first asked for."""
        return self.known_digest or find_digest(self)

    @property
    def order(self) -> tuple[bytes, bytes]:
        """What summands are sorted by, in every process alike: symbols count by name and bounds, so that a program
        looks the same in every run, and by identity where those are equal."""
        return self.known_order or find_order(self), self.digest

    def same(self, other: Term) -> bool:
        """Structural equality (`==` builds a term instead).

        >>> from eqsat.ir.terms.term import var
        >>> (var("i") + 1).same(1 + var("i"))
        True
        """
        return self is other

    def evaluate(self, env: Mapping[Any, Any] | None = None) -> Any:
        """The numpy value of a term, its free variables given as numbers or arrays, by name or as the terms they are.

        >>> from eqsat.ir.terms.term import var
        >>> (var("i") // 4).evaluate({"i": np.arange(8)})
        array([0, 0, 0, 0, 1, 1, 1, 1])
        """
        from eqsat.ir.terms.evaluate import evaluate_named

        return evaluate_named(self, env or {})

    def __array__(self, *_: object, **__: object) -> Any:
        """Index terms may stand in arrays of objects, as sizes do; what has elements may not."""
        if self.dtype != INDEX:
            raise TypeMismatch(f"array of {self}", "a term has no value until it is evaluated", "term.evaluate(values)")
        alone = np.empty((), object)
        alone[()] = self
        return alone

    def __hash__(self) -> int:
        return self.serial

    def __copy__(self) -> Term:
        return self

    def __deepcopy__(self, memo: Any) -> Term:
        return self

    def __str__(self) -> str:
        from eqsat.ir.terms.text import format_term

        return format_term(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card("", str(self), {"type": self.dtype})

    def __bool__(self) -> bool:
        raise TypeMismatch(
            f"bool({self})",
            "a term has no truth value until it is evaluated",
            "use eq.where, eq.minimum, eq.maximum, eq.logical_and, eq.logical_or or eq.logical_not; "
            "a.same(b) compares structure",
        )

    def __int__(self) -> NoReturn:
        fix = "term.evaluate(values); eq.cast changes its type"
        raise TypeMismatch(f"int({self})", "a term has no value until it is evaluated", fix)

    def __float__(self) -> NoReturn:
        fix = "term.evaluate(values); eq.cast changes its type"
        raise TypeMismatch(f"float({self})", "a term has no value until it is evaluated", fix)

    def __iter__(self) -> Any:
        raise TypeMismatch(f"iteration over {self}", "a term is a scalar")

    def __add__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().add(self, other)

    def __radd__(self, other: TermLike) -> Term:
        return _laws().add(other, self)

    def __sub__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().sub(self, other)

    def __rsub__(self, other: TermLike) -> Term:
        return _laws().sub(other, self)

    def __mul__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().mul(self, other)

    def __rmul__(self, other: TermLike) -> Term:
        return _laws().mul(other, self)

    def __floordiv__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("floordiv", self, other)

    def __rfloordiv__(self, other: TermLike) -> Term:
        return _laws().binary("floordiv", other, self)

    def __mod__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("mod", self, other)

    def __rmod__(self, other: TermLike) -> Term:
        return _laws().binary("mod", other, self)

    def __divmod__(self, other: TermLike) -> tuple[Term, Term]:
        return NotImplemented if isinstance(other, Lifted) else (self // other, self % other)

    def __rdivmod__(self, other: TermLike) -> tuple[Term, Term]:
        return other // self, other % self

    def __truediv__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("div", self, other)

    def __rtruediv__(self, other: TermLike) -> Term:
        return _laws().binary("div", other, self)

    def __pow__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("pow", self, other)

    def __rpow__(self, other: TermLike) -> Term:
        return _laws().binary("pow", other, self)

    def __neg__(self) -> Term:
        return _laws().neg(self)

    def __pos__(self) -> Term:
        return self

    def __abs__(self) -> Term:
        return _laws().absolute(self)

    def __and__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("bitand", self, other)

    def __rand__(self, other: TermLike) -> Term:
        return _laws().binary("bitand", other, self)

    def __or__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("bitor", self, other)

    def __ror__(self, other: TermLike) -> Term:
        return _laws().binary("bitor", other, self)

    def __xor__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("bitxor", self, other)

    def __rxor__(self, other: TermLike) -> Term:
        return _laws().binary("bitxor", other, self)

    def __lshift__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("shl", self, other)

    def __rlshift__(self, other: TermLike) -> Term:
        return _laws().binary("shl", other, self)

    def __rshift__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().binary("shr", self, other)

    def __rrshift__(self, other: TermLike) -> Term:
        return _laws().binary("shr", other, self)

    def __invert__(self) -> Term:
        return _laws().logical_not(self) if self.dtype == BOOL else _laws().unary("bitnot", self)

    def __lt__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().compare("lt", self, other)

    def __le__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().compare("le", self, other)

    def __gt__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().compare("lt", other, self)

    def __ge__(self, other: TermLike) -> Term:
        return NotImplemented if isinstance(other, Lifted) else _laws().compare("le", other, self)

    # Like numpy's, these answer a term: object's == answers a bool, which no checker lets a class change.
    def __eq__(self, other: object) -> Term:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _laws().compare("eq", self, other)

    def __ne__(self, other: object) -> Term:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _laws().compare("ne", self, other)


class _Reference(weakref.ref["Term"]):
    """A weak reference that knows its key, so that a term that nobody holds leaves the table."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


def _forget(reference: weakref.ref[Term]) -> None:
    """Called where the last holder of a term lets go of it, at any moment, also while Python ends and threads that hold
    the lock stand still for ever: so it never waits."""
    if _lock.acquire(blocking=False):
        try:
            _drop(reference)
        finally:
            _lock.release()
    else:
        _dropped.append(reference)


def _drop(reference: weakref.ref[Term]) -> None:
    key = cast(_Reference, reference).key
    if _interned.get(key) is reference:
        del _interned[key]


def _payload_key(op: str, payload: Any) -> Any:
    """What tells payloads apart: operand numbers and the content of tables, but the identity of tensors."""
    return (type(payload).__name__, getattr(payload, "source_key", payload)) if op == "load" else payload


def make(op: str, args: Sequence[Term] = (), payload: Any = None, dtype: str = INDEX, lanes: int = 0) -> Term:
    """Intern a node as it stands, unchecked: for builders, readers and rewriters of this package."""
    args = tuple(args)
    if op == "load":  # vectors of a buffer have the name and the index that its elements have in another function
        lanes = lanes or max((a.lanes for a in args), default=1)
        key = (op, dtype, _payload_key(op, payload), lanes, *[a.serial for a in args])
    else:
        key = (op, dtype, payload, *[a.serial for a in args])
    reference = _interned.get(key)
    found = None if reference is None else reference()
    if found is not None:
        return found
    with _lock:
        while _dropped:
            _drop(_dropped.pop())
        reference = _interned.get(key)
        found = None if reference is None else reference()
        if found is not None:
            return found
        term = object.__new__(Term)
        term.op, term.args, term.payload, term.dtype = op, args, payload, dtype
        if not lanes:
            lanes = 1
            for a in args:
                if a.lanes > lanes:
                    lanes = a.lanes
        term.lanes = lanes
        term.known_digest = term.known_order = None
        term.serial = next(_serials)
        reference = _Reference(term, _forget)
        reference.key = key
        _interned[key] = reference
        return term


def find_digest(term: Term) -> bytes:
    """The content hash of a term, those of its subterms first; finds what orders summands as well."""
    stack = [term]
    while stack:
        node = stack[-1]
        missing = [a for a in node.args if a.known_digest is None]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        digest = _hash(node, node.payload, [a.digest for a in node.args])
        order = digest
        if node.op == "sym":
            order = _hash(node, tuple(node.payload[:-1]), [])
        elif any(a.known_order is not a.known_digest for a in node.args):
            order = _hash(node, node.payload, [a.known_order or b"" for a in node.args])
        node.known_order, node.known_digest = order, digest
    return term.digest


def find_order(term: Term) -> bytes:
    """The content hash of a term that leaves the identity of symbols out."""
    find_digest(term)
    assert term.known_order is not None
    return term.known_order


def _hash(node: Term, payload: Any, parts: Sequence[bytes]) -> bytes:
    wide = f"x{node.lanes}" if node.op == "load" and node.lanes > 1 else ""
    text = f"{node.op}|{node.dtype}{wide}|{_payload_key(node.op, payload)!r}|".encode()
    return hashlib.blake2b(text + b"".join(parts), digest_size=12).digest()
