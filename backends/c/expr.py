"""Scalar terms as C expressions with numpy's meaning; shared subterms become local constants, guards stay lazy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from eqsat.backends.c.math import MATH, needed
from eqsat.backends.c.types import INDEX_CLAMP, WIDENED, c_type, literal, unsigned
from eqsat.backends.lowering.index_simplifier import INDEX_LIMIT as LIMIT
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.ir.dtypes import BFLOAT16, BOOL, INDEX, is_float, is_int
from eqsat.ir.errors import BackendError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, const_value, int_value
from eqsat.ir.terms.walk import postorder

Text = tuple[str, int]
"""An expression and how tightly its outermost operator binds."""
ATOM, CAST, TIMES, PLUS, COMPARED, LOOSE, CONDITION = 15, 14, 13, 12, 10, 5, 3
LONG = 100

_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}
_BITS = {"bitand": "&", "bitor": "|", "bitxor": "^"}
_ARITHMETIC = {"add": ("+", PLUS), "sub": ("-", PLUS), "mul": ("*", TIMES), "div": ("/", TIMES)}
_LIBM = {name: name for name in t.FLOAT_UNARY} | {"round": "rint", "abs": "fabs", "pow": "pow"}


def wrap(text: Text, level: int) -> str:
    """The expression, in brackets where it binds less than `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"


class Scope:
    """A block of C: the declarations so far, and the terms that have a text in it."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.lines: list[str] = []
        self.texts: dict[Term, Text] = {}

    def find(self, term: Term) -> Text | None:
        """The text of a term, from this block or one around it."""
        scope: Scope | None = self
        while scope is not None:
            if term in scope.texts:
                return scope.texts[term]
            scope = scope.parent
        return None


class Expressions:
    """Prints the terms of one function. `buffers` gives C names, `index` is the C type of index terms.

    With `wide`, binary16 values are floats that hold them: nothing is converted, the caller rounds.
    """

    def __init__(self, buffers: Mapping[str, str], index: str, simplifier: IndexSimplifier, wide: bool = False) -> None:
        self.wide = wide
        self.buffers = dict(buffers)
        self.index = index
        self.simplifier = simplifier
        self.axes: dict[Term, str] = {}
        self.helpers: dict[str, None] = {}
        self.temporaries = 0
        self._uses: Counter[Term] = Counter()
        self._loads: set[Term] = set()

    def print_terms(self, roots: Sequence[Term], scope: Scope) -> list[str]:
        """The C texts of terms that are evaluated together; what they share is declared in the scope."""
        self._uses = Counter(a for node in postorder(*roots) for a in node.args)
        self._loads = set()
        for node in postorder(*roots):
            if node.op == "load" or any(a in self._loads for a in node.args):
                self._loads.add(node)
        return [self.value(root, scope)[0] for root in roots]

    def lazy(self, node: Term) -> tuple[Term, ...]:
        """The arguments that may only be evaluated behind their guard: those that load."""
        if node.op in ("where", "and", "or") and any(a in self._loads for a in node.args[1:]):
            return node.args[1:]
        return ()

    def value(self, root: Term, scope: Scope) -> Text:
        """The text of a term in a scope."""
        stack: list[tuple[Term, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if scope.find(node) is not None:
                continue
            eager = node.args[: 1 if self.lazy(node) else None]
            if node.op != "axis" and not ready and eager:
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(eager))
                continue
            text = self.guarded(node, scope) if self.lazy(node) else self.strict(node, scope)
            shared = self._uses[node] > 1 and node.args and node.op != "axis"
            if shared or len(text[0]) > LONG:
                text = self.declare(node, text[0], scope)
            scope.texts[node] = text
        found = scope.find(root)
        assert found is not None
        return found

    def type_of(self, node: Term) -> str:
        """The C type in which a value is held."""
        if node.dtype == "float16" and self.wide:
            return "float"
        return "int" if node.dtype == BOOL else c_type(node.dtype, self.index)

    def name(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    def declare(self, node: Term, text: str, scope: Scope) -> Text:
        """Bind a value to a local constant."""
        name = self.name()
        scope.lines.append(f"const {self.type_of(node)} {name} = {self.narrowed(node.dtype, text)};")
        return name, ATOM

    @staticmethod
    def narrowed(dtype: str, text: str) -> str:
        """C computes in int at least: what goes into a smaller type says so."""
        c = c_type(dtype, "")
        small = dtype in ("int8", "int16", "uint8", "uint16")
        return f"({c})({text})" if small and not text.startswith((f"({c})", "cast_")) else text

    def guarded(self, node: Term, scope: Scope) -> Text:
        """where, and, or whose later parts load: C's lazy operators, or a branch where a part needs declarations."""
        first = self.value(node.args[0], scope)
        if node.op == "where":
            parts = [self.branch(a, scope) for a in node.args[1:]]
            if not any(lines for lines, _ in parts):
                yes, no = (wrap(text, LOOSE) for _, text in parts)
                return f"{wrap(first, COMPARED)} ? {yes} : {no}", CONDITION
            name = self.name()
            scope.lines.append(f"{self.type_of(node)} {name};")
            self.block(f"if ({first[0]})", name, node, parts[0], scope)
            self.block("else", name, node, parts[1], scope)
            return name, ATOM
        sign = " && " if node.op == "and" else " || "
        parts = [self.branch(a, scope) for a in node.args[1:]]
        if not any(lines for lines, _ in parts):
            return sign.join(wrap(x, COMPARED) for x in (first, *(text for _, text in parts))), LOOSE - 1
        name = self.name()
        scope.lines.append(f"int {name} = {first[0]};")
        for part in parts:
            self.block(f"if ({name})" if node.op == "and" else f"if (!{name})", name, node, part, scope)
        return name, ATOM

    def branch(self, node: Term, scope: Scope) -> tuple[list[str], Text]:
        inner = Scope(scope)
        text = self.value(node, inner)
        return inner.lines, text

    def block(self, head: str, name: str, node: Term, part: tuple[list[str], Text], scope: Scope) -> None:
        lines, text = part
        scope.lines.append(f"{head} {{")
        scope.lines += [f"    {line}" for line in lines]
        scope.lines += [f"    {name} = {self.narrowed(node.dtype, text[0])};", "}"]

    # -- one operation

    def helper(self, name: str, *args: Text) -> Text:
        """A call of a helper function, which the unit then contains."""
        for part in (*needed(name), name):
            self.helpers.setdefault(part)
        return f"{name}({', '.join(a[0] for a in args)})", ATOM

    def strict(self, node: Term, scope: Scope) -> Text:
        """The text of an operation on texts."""
        op = node.op
        if op in ("axis", "var", "sym"):
            return self.axes[node], ATOM
        if op == "const":
            if node.dtype == INDEX:
                return t_int(node.payload), ATOM if node.payload >= 0 else PLUS
            wide = node.dtype == "float16" and self.wide
            return literal(const_value(node), "float32" if wide else node.dtype), ATOM
        args: list[Text] = []
        for a in node.args:
            text = scope.find(a)
            assert text is not None
            args.append(text)
        if op == "load":
            text = f"{self.buffers[node.payload]}[{args[0][0]}]"
            if node.dtype == INDEX:
                return f"({self.index}){text}", CAST
            return (f"{text} != 0", COMPARED - 1) if node.dtype == BOOL else (text, ATOM)
        if op == "where":
            return f"{wrap(args[0], COMPARED)} ? {wrap(args[1], LOOSE)} : {wrap(args[2], LOOSE)}", CONDITION
        if op in ("and", "or"):
            return (" && " if op == "and" else " || ").join(wrap(a, COMPARED) for a in args), LOOSE - 1
        if op == "not":
            return f"!{wrap(args[0], ATOM)}", CAST
        source = node.args[0].dtype
        if op in _COMPARE:
            floats = [self.as_float(a, source) for a in args]
            sides = [wrap(a, PLUS) for a in floats]
            return f"{sides[0]} {_COMPARE[op]} {sides[1]}", COMPARED - (op in ("eq", "ne"))
        if op == "cast":
            return self.cast(node, args[0], source)
        if op in ("isnan", "isinf"):
            return f"{op}({self.as_float(args[0], source)[0]}) != 0", COMPARED - 1
        function = self._float_op if is_float(node.dtype) else self._index_op if node.dtype == INDEX else self._int_op
        return function(node, args)

    def as_float(self, text: Text, dtype: str) -> Text:
        """A float16 or bfloat16 value as float; others as they are."""
        if dtype not in WIDENED or (self.wide and dtype == "float16"):
            return text
        return f"{WIDENED[dtype][0]}({text[0]})", ATOM

    def _float_op(self, node: Term, args: list[Text]) -> Text:
        if node.dtype in WIDENED:
            inner = self._float_in("float32", node, [self.as_float(a, node.dtype) for a in args])
            wide = self.wide and node.dtype == "float16"
            return inner if wide else (f"{WIDENED[node.dtype][1]}({inner[0]})", ATOM)
        return self._float_in(node.dtype, node, args)

    def _float_in(self, dtype: str, node: Term, args: list[Text]) -> Text:
        op, f = node.op, "" if dtype == "float64" else "f"
        if op in _ARITHMETIC:
            sign, level = _ARITHMETIC[op]
            return f"{wrap(args[0], level)} {sign} {wrap(args[1], level + 1)}", level
        if op == "neg":
            return f"-{wrap(args[0], CAST + 1)}", CAST
        if op in ("min", "max"):
            first = node.dtype == "float16"
            for k, a in enumerate(node.args):
                if a.op == "const" and const_value(a) == const_value(a):
                    return self.helper(f"{op}{'e' if (k == 0) == first else 'n'}_{dtype}", args[k], args[1 - k])
            return self.helper(f"{op}{'1' if first else ''}_{dtype}", *args)
        if op in ("floordiv", "mod"):
            return self.helper(f"{op}_{dtype}", *args)
        if f"{op}_{dtype}" in MATH:
            return self.helper(f"{op}_{dtype}", *args)
        if op == "pow" and node.args[1].op == "const" and const_value(node.args[1]) == 0.5:
            return self.helper(f"root_{dtype}", *args)
        if op in _LIBM:
            return f"{_LIBM[op]}{f}({', '.join(a[0] for a in args)})", ATOM
        raise BackendError(f"C code for {op}", f"is not defined for {node.dtype}")

    def _int_op(self, node: Term, args: list[Text]) -> Text:
        op, dtype = node.op, node.dtype
        c = c_type(dtype, self.index)
        if dtype == BOOL:
            sign = _BITS.get({"min": "bitand", "max": "bitor"}.get(op, op))
            if sign is None:
                raise BackendError(f"C code for {op}", "is not defined for bool")
            return f"{wrap(args[0], COMPARED + 1)} {sign} {wrap(args[1], COMPARED + 1)}", LOOSE
        if op in ("add", "sub", "mul"):
            u, (sign, _) = unsigned(dtype), _ARITHMETIC[op]
            return f"({c})(({u}){wrap(args[0], CAST)} {sign} ({u}){wrap(args[1], CAST)})", CAST
        if op == "neg":
            return f"({c})(0 - ({unsigned(dtype)}){wrap(args[0], CAST)})", CAST
        if op in _BITS:
            return f"({c})({wrap(args[0], COMPARED + 1)} {_BITS[op]} {wrap(args[1], COMPARED + 1)})", CAST
        if op == "bitnot":
            return f"({c})~{wrap(args[0], CAST)}", CAST
        if op == "abs" and dtype.startswith("u"):
            return args[0]
        if op in ("floordiv", "mod") and dtype.startswith("u"):
            op = "truncdiv" if op == "floordiv" else "truncmod"
        return self.helper(f"{op}_{dtype}", *args)

    def _index_op(self, node: Term, args: list[Text]) -> Text:
        op = node.op
        if op == "sum":
            return self._sum(node, args)
        if op == "prod":
            # From the left: a factor behind the first that is a quotient needs its brackets.
            return " * ".join(wrap(a, TIMES + (k > 0)) for k, a in enumerate(args)), TIMES
        if op in ("floordiv", "mod", "truncdiv", "truncmod"):
            divisor = int_value(node.args[1])
            known = self.simplifier.range(node.args[0])
            plain = op.startswith("trunc") or (known is not None and known[0] >= 0)
            if divisor is not None and divisor > 0 and plain:
                return f"{wrap(args[0], TIMES)} {'/' if op.endswith('div') else '%'} {args[1][0]}", TIMES
        if op in _BITS:
            return f"{wrap(args[0], TIMES)} {_BITS[op]} {wrap(args[1], TIMES)}", LOOSE
        return self.helper(f"{op}_{self.index.removesuffix('_t')}", *args)

    def _sum(self, node: Term, args: list[Text]) -> Text:
        constant, coefficients = node.payload
        items = sorted(zip(coefficients, args, strict=True), key=lambda item: (item[0] < 0, -abs(item[0]), item[1][0]))
        text = ""
        for c, a in items:
            sign = ("-" if c < 0 else "") if not text else (" - " if c < 0 else " + ")
            text += sign + (wrap(a, TIMES) if abs(c) == 1 else f"{t_int(abs(c))} * {wrap(a, CAST)}")
        if constant:
            text += f" {'-' if constant < 0 else '+'} {t_int(abs(constant))}"
        return text, PLUS

    def cast(self, node: Term, x: Text, source: str) -> Text:
        """numpy's conversion: floats to integers saturate, integers wrap."""
        target = node.dtype
        if source in WIDENED:
            x, source = self.as_float(x, source), "float32"
        if target == BOOL:
            return f"{wrap(x, PLUS)} != 0", COMPARED - 1
        if (
            target == INDEX
            and source in INDEX_CLAMP
            and max(map(abs, self.simplifier.range(node) or (LIMIT,))) >= LIMIT
        ):
            return self.helper(INDEX_CLAMP[source], x)
        if target == BFLOAT16:
            x = x if source == "float32" else (f"(float){wrap(x, CAST)}", CAST)
            return f"float_to_bfloat16({x[0]})", ATOM
        if target == "float16":
            if source == "float64":
                return f"double_to_{'odd' if self.wide else 'half'}({x[0]})", ATOM
            x = x if source == "float32" else (f"(float){wrap(x, CAST)}", CAST)
            return x if self.wide else (f"float_to_half({x[0]})", ATOM)
        if is_float(source) and is_int(target):
            return self.helper(f"cast_{source}_to_{target}", x)
        return (x[0], x[1]) if source == target else (f"({c_type(target, self.index)}){wrap(x, CAST)}", CAST)


def t_int(value: int) -> str:
    """An index constant."""
    return str(value) if -(1 << 31) < value < 1 << 31 else f"INT64_C({value})"


def index_type(terms: Sequence[Term], simplifier: IndexSimplifier) -> str:
    """int32_t where every subterm, partial sums included, is shown to fit, else int64_t, else an error naming it."""
    widest = 0
    for node in postorder(*terms):
        if node.dtype != INDEX:
            continue
        known = simplifier.range(node)
        if known is None:
            raise BackendError(f"index {node}", "has no known bound", "guard it, or use a narrower integer type")
        size = max(abs(known[0]), abs(known[1]))
        if node.op == "sum":
            constant, coefficients = node.payload
            size = abs(constant)
            for c, a in zip(coefficients, node.args, strict=True):
                low, high = simplifier.range(a) or (0, 0)
                size += max(abs(c), 1) * max(abs(low), abs(high), 1)
        widest = max(widest, size)
        if widest >= 1 << 63:
            raise BackendError(f"index {node}", "may not fit 64 bits", "bound it, or use a narrower integer type")
    return "int32_t" if widest < 1 << 31 else "int64_t"
