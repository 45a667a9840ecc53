"""Terms as Z3 expressions: integers or bit-vectors for indices, bit-vectors for fixed-width data, and for floats one of
IEEE arithmetic, reals (under the `finite` assumption) or uninterpreted values. What a mode cannot express becomes an
uninterpreted function, which is sound for proofs; counter-models are believed only after numpy agrees with them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from eqsat.ir.dtypes import BOOL, COMPLEX, FLOATS, INDEX, INTS, UINTS, from_bits, is_float, is_int, itemsize
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.question import Question, Range, Variable
from eqsat.proving.range import intervals, runs, variable_ranges, widest

LARGEST_TABLE = 64
_COMPARE = ("lt", "le", "eq", "ne")
_WRAPPING = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "bitand": "__and__", "bitor": "__or__", "bitxor": "__xor__"
}  # fmt: skip
_ROUNDED = {"add": "fpAdd", "sub": "fpSub", "mul": "fpMul", "div": "fpDiv"}
_INTEGRAL = {"floor": "RTN", "ceil": "RTP", "round": "RNE", "trunc": "RTZ"}


class Untranslatable(Exception):
    """A question that a formulation cannot express."""


@dataclass(frozen=True)
class Formulation:
    """One way to state a question to Z3."""

    index: Literal["int", "bits"] = "int"
    division: Literal["native", "euclid"] = "native"
    lemmas: Literal["", "witness", "pairs"] = ""
    logic: str = ""
    floats: Literal["opaque", "ieee", "real"] = "opaque"

    @property
    def name(self) -> str:
        """How a proof names it."""
        parts = ["z3", "bit-vectors" if self.index == "bits" else "integers"]
        parts += ["euclid"] * (self.division == "euclid") + [self.lemmas, self.logic]
        return " ".join(p for p in [*parts, "" if self.floats == "opaque" else self.floats] if p)


class Translator:
    """The expressions of one question in one formulation, with the side constraints they need."""

    def __init__(self, question: Question, form: Formulation, positive: frozenset[Term] = frozenset()) -> None:
        self.z3: Any = importlib.import_module("z3")
        self.context: Any = self.z3.Context()
        self.form = form
        self.positive = positive
        self.constraints: list[Any] = []
        self.pool: list[Any] = []
        self.quotients: dict[tuple[Term, ...] | None, tuple[Any, Any]] = {}
        self.known: dict[Term, Any] = {}
        self.float_constants: dict[str, list[Any]] = {}
        # A variable that the terms do not use has a range to be stated too, and must fit the width.
        roots = (*question.roots, *(v.leaf for v in question.variables if v.start is not None and v.stop is not None))
        self.ranges: dict[Term, Range] = intervals(roots, variable_ranges(question))
        self.width = 0
        if form.index == "bits":
            largest = widest(roots, self.ranges)
            if largest is None or largest.bit_length() > 60:
                raise Untranslatable
            self.width = largest.bit_length() + 3
        self.variables = [self.variable(v) for v in question.variables]

    # -- sorts and leaves ----------------------------------------------------------------------------------------------

    def sort(self, dtype: str) -> Any:
        z3 = self.z3
        if dtype == INDEX:
            return z3.BitVecSort(self.width, self.context) if self.width else z3.IntSort(self.context)
        if dtype == BOOL:
            return z3.BoolSort(self.context)
        if is_int(dtype) or dtype in COMPLEX:
            return z3.BitVecSort(8 * itemsize(dtype), self.context)
        if self.form.floats == "real":
            return z3.RealSort(self.context)
        if self.form.floats == "opaque":
            return z3.DeclareSort(dtype, self.context)
        exponent, significand = {"bfloat16": (8, 8), "float16": (5, 11), "float32": (8, 24), "float64": (11, 53)}[dtype]
        return z3.FPSort(exponent, significand, self.context)

    def number(self, value: int) -> Any:
        if self.width:
            if value.bit_length() >= self.width:  # it would be another number
                raise Untranslatable
            return self.z3.BitVecVal(value, self.width, self.context)
        return self.z3.IntVal(value, self.context)

    def variable(self, v: Variable) -> Any:
        here = self.z3.Const(v.leaf.payload, self.sort(v.leaf.dtype))
        self.known[v.leaf] = here
        if v.start is not None:
            self.constraints.append(here >= self.number(v.start))
        if v.stop is not None:
            self.constraints.append(here < self.number(v.stop))
        if v.multiple_of != 1:
            if self.width:
                self.constraints.append(self.z3.SRem(here, self.number(v.multiple_of)) == 0)
            else:
                self.constraints.append(here == v.multiple_of * self.z3.Int(f"{v.leaf.payload}/m", self.context))
        return here

    def constant(self, node: Term) -> Any:
        z3, dtype = self.z3, node.dtype
        if dtype == INDEX:
            return self.number(node.payload)
        if dtype == BOOL:
            return z3.BoolVal(bool(node.payload), self.context)
        if is_int(dtype):
            return z3.BitVecVal(node.payload, 8 * itemsize(dtype), self.context)
        return self.float_constant(node.payload, dtype)

    def float_constant(self, bits: int, dtype: str) -> Any:
        z3 = self.z3
        if self.form.floats == "ieee":
            return self.fp("fpBVToFP", z3.BitVecVal(bits, 8 * itemsize(dtype), self.context), self.sort(dtype))
        if self.form.floats == "real":
            value = float(from_bits(bits, dtype))
            if not np.isfinite(value):
                raise Untranslatable
            exact = Fraction(value)
            return z3.Q(exact.numerator, exact.denominator, self.context)
        here = z3.Const(f"{dtype}#{bits}", self.sort(dtype))
        others = self.float_constants.setdefault(dtype, [])
        self.constraints.extend(here != other for other in others)
        others.append(here)
        return here

    def opaque(self, node: Term, args: Sequence[Any]) -> Any:
        """An uninterpreted function of the operands."""
        payload = getattr(node.payload, "source_key", node.payload)
        name = f"{node.op}|{payload}|{node.dtype}|{','.join(a.dtype for a in node.args)}"
        if not args:
            return self.z3.Const(name, self.sort(node.dtype))
        return self.z3.Function(name, *(self.sort(a.dtype) for a in node.args), self.sort(node.dtype))(*args)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def translate(self, root: Term) -> Any:
        """The Z3 expression of a term."""
        for node in postorder(root):
            if node not in self.known:
                self.known[node] = self.node(node, [self.known[a] for a in node.args])
        return self.known[root]

    def node(self, node: Term, args: list[Any]) -> Any:
        z3, op = self.z3, node.op
        if op == "const":
            return self.constant(node)
        if op == "and":
            return z3.And(*args)
        if op == "or":
            return z3.Or(*args)
        if op == "not":
            return z3.Not(args[0])
        if op == "where":
            return z3.If(args[0], args[1], args[2])
        if op == "given":  # a free value outside of the condition, one per node
            free = z3.Const(f"given|{node.digest.hex()}", self.sort(node.dtype))
            return z3.If(args[0], args[1], free)
        if op == "same":
            return args[0] == args[1]
        if op in _COMPARE:
            return self.comparison(node, args)
        if op == "cast":
            return self.cast(node, args[0])
        if op == "load":
            return self.load(node, args)
        if node.dtype == INDEX:
            return self.index(node, args)
        if is_int(node.dtype):
            return self.integer(node, args)
        if is_float(node.dtype) or op in ("isnan", "isinf"):
            return self.floating(node, args)
        return self.opaque(node, args)

    def comparison(self, node: Term, args: list[Any]) -> Any:
        z3, op, dtype = self.z3, node.op, node.args[0].dtype
        a, b = args
        if is_float(dtype) and self.form.floats == "ieee":
            return self.fp({"lt": "fpLT", "le": "fpLEQ", "eq": "fpEQ", "ne": "fpNEQ"}[op], a, b)
        if is_float(dtype) and self.form.floats == "opaque":
            return self.opaque(node, args)
        if op in ("eq", "ne"):
            return a == b if op == "eq" else a != b
        if dtype == BOOL:
            return z3.And(z3.Not(a), b) if op == "lt" else z3.Implies(a, b)
        if dtype in UINTS:
            return (z3.ULT if op == "lt" else z3.ULE)(a, b)
        return a < b if op == "lt" else a <= b

    def load(self, node: Term, args: list[Any]) -> Any:
        source: Any = node.payload
        if not isinstance(source, Table) or len(source.array) > LARGEST_TABLE or not source.array.size:
            return self.opaque(node, args)
        entries: list[int] = source.array.tolist()
        result = self.number(entries[-1])
        for k, entry in enumerate(entries[:-1]):
            result = self.z3.If(args[0] == k, self.number(entry), result)
        return result

    # -- indices -------------------------------------------------------------------------------------------------------

    def index(self, node: Term, args: list[Any]) -> Any:
        z3, op = self.z3, node.op
        if op == "sum":
            constant, coefficients = node.payload
            total = self.number(constant)
            for c, a in zip(coefficients, args, strict=True):
                total = total + (a if c == 1 else self.number(c) * a)
            return total
        if op == "prod":
            result = args[0]
            for a in args[1:]:
                result = result * a
            return result
        if op == "abs":
            return z3.If(args[0] < 0, -args[0], args[0])
        if len(args) != 2:
            return self.opaque(node, args)
        a, b = args
        if op in ("min", "max"):
            return z3.If(a <= b, a, b) if op == "min" else z3.If(a <= b, b, a)
        if op in ("floordiv", "mod", "truncdiv", "truncmod"):
            return self.division(node, a, b)
        if self.width:
            if op in ("bitand", "bitor", "bitxor"):
                return a & b if op == "bitand" else a | b if op == "bitor" else a ^ b
            return a << b if op == "shl" else a >> b
        return self.bits_as_integers(node, a)

    def bits_as_integers(self, node: Term, a: Any) -> Any:
        """Shifts and masks by numbers as products, quotients and remainders."""
        op = node.op
        amount = node.args[1].payload if node.args[1].op == "const" else -1
        if op in ("shl", "shr") and 0 <= amount < 64:
            return a * (1 << amount) if op == "shl" else a / self.number(1 << amount)
        digits = runs(amount) if op not in ("shl", "shr") and amount.bit_length() < 64 else None
        if digits is None:
            return self.opaque(node, [a, self.known[node.args[1]]])
        common = self.number(0)
        for low, length in digits:
            common = common + (a / self.number(1 << low)) % self.number(1 << length) * (1 << low)
        if op == "bitand":
            return common
        return a + amount - common * (2 if op == "bitxor" else 1)

    def is_positive(self, term: Term) -> bool:
        low = self.ranges.get(term, (None, None))[0]
        return term in self.positive or (low is not None and low > 0)

    def division(self, node: Term, a: Any, b: Any) -> Any:
        z3, op, divisor = self.z3, node.op, node.args[1]
        if self.width:
            return self.signed_division(op, a, b)
        positive = self.is_positive(divisor)
        if op in ("floordiv", "mod"):
            q, r = self.quotient(a, b, positive, node.args)
            if not positive:
                q_below, r_below = self.quotient(-a, -b, False, None)
                q, r = z3.If(b > 0, q, q_below), z3.If(b > 0, r, -r_below)
            return q if op == "floordiv" else r
        top = z3.If(a < 0, -a, a)
        q, _ = self.quotient(top, b if positive else z3.If(b < 0, -b, b), positive, None)
        q = z3.If(a < 0, -q, q) if positive else z3.If((a < 0) == (b < 0), q, -q)
        return q if op == "truncdiv" else a - b * q

    def quotient(self, a: Any, b: Any, positive: bool, operands: tuple[Term, ...] | None) -> tuple[Any, Any]:
        """Quotient and remainder for b > 0 (anything otherwise); `operands` are the terms that a and b are."""
        if self.form.division == "native":
            return a / b, a % b
        if operands in self.quotients:
            return self.quotients[operands]
        z3 = self.z3
        n = len(self.pool)
        q, r = z3.Int(f"q{n}", self.context), z3.Int(f"r{n}", self.context)
        definition = z3.And(a == b * q + r, r >= 0, r < b)
        self.constraints.append(definition if positive else z3.Implies(b > 0, definition))
        self.pool.append(q)
        if operands is not None:
            self.quotients[operands] = (q, r)
        return q, r

    # -- fixed-width integers ------------------------------------------------------------------------------------------

    def integer(self, node: Term, args: list[Any]) -> Any:
        z3, op, signed = self.z3, node.op, node.dtype in INTS
        if op in ("neg", "bitnot"):
            return -args[0] if op == "neg" else ~args[0]
        if op == "abs":
            return z3.If(args[0] < 0, -args[0], args[0]) if signed else args[0]
        if len(args) != 2 or op in ("pow", "hole"):
            return self.opaque(node, args)
        a, b = args
        if op in _WRAPPING:
            return getattr(a, _WRAPPING[op])(b)
        if op in ("min", "max"):
            below = a <= b if signed else z3.ULE(a, b)
            return z3.If(below, a, b) if op == "min" else z3.If(below, b, a)
        if op == "shl":
            return a << b
        if op == "shr":
            return a >> b if signed else z3.LShR(a, b)
        if not signed:
            return z3.UDiv(a, b) if op in ("floordiv", "truncdiv") else z3.URem(a, b)
        return self.signed_division(op, a, b)

    def signed_division(self, op: str, a: Any, b: Any) -> Any:
        """A quotient or a remainder of bit vectors as signed numbers: Z3's own are those of truncation."""
        z3 = self.z3
        quotient, remainder = a / b, z3.SRem(a, b)
        if op in ("truncdiv", "truncmod"):
            return quotient if op == "truncdiv" else remainder
        wrong = z3.And(remainder != 0, (remainder < 0) != (b < 0))
        return z3.If(wrong, quotient - 1, quotient) if op == "floordiv" else z3.If(wrong, remainder + b, remainder)

    def cast(self, node: Term, a: Any) -> Any:
        z3, source, target = self.z3, node.args[0].dtype, node.dtype
        if is_float(source) or is_float(target):
            return self.float_cast(node, a)
        if source == BOOL:
            one, zero = (self.number(1), self.number(0)) if target == INDEX else (
                z3.BitVecVal(1, 8 * itemsize(target), self.context), z3.BitVecVal(0, 8 * itemsize(target), self.context)
            )  # fmt: skip
            return z3.If(a, one, zero)
        if target == BOOL:
            return a != 0
        if source == INDEX and not self.width:
            return z3.Int2BV(a, 8 * itemsize(target))
        if target == INDEX and not self.width:
            return z3.BV2Int(a, is_signed=source in INTS)
        have = self.width if source == INDEX else 8 * itemsize(source)
        want = self.width if target == INDEX else 8 * itemsize(target)
        if want <= have:
            return z3.Extract(want - 1, 0, a) if want < have else a
        return z3.SignExt(want - have, a) if source in INTS or source == INDEX else z3.ZeroExt(want - have, a)

    # -- floats --------------------------------------------------------------------------------------------------------

    def floating(self, node: Term, args: list[Any]) -> Any:
        if self.form.floats == "ieee":
            return self.ieee(node, args)
        if self.form.floats == "real":
            return self.real(node, args)
        return self.opaque(node, args)

    def fp(self, function: str, *args: Any) -> Any:
        """A floating-point expression; z3 takes the main context unless told."""
        return getattr(self.z3, function)(*args, ctx=self.context)

    def ieee(self, node: Term, args: list[Any]) -> Any:
        z3, op = self.z3, node.op
        nearest = z3.RNE(self.context)
        if op in _ROUNDED:
            return self.fp(_ROUNDED[op], nearest, args[0], args[1])
        if op in _INTEGRAL:
            return self.fp("fpRoundToIntegral", getattr(z3, _INTEGRAL[op])(self.context), args[0])
        if op in ("neg", "abs"):
            return self.fp("fpNeg" if op == "neg" else "fpAbs", args[0])
        if op == "sqrt":
            return self.fp("fpSqrt", nearest, args[0])
        if op in ("isnan", "isinf"):
            return self.fp("fpIsNaN" if op == "isnan" else "fpIsInf", args[0])
        if op in ("min", "max"):
            a, b = args
            less = self.fp("fpLT", a, b) if op == "min" else self.fp("fpGT", a, b)
            more = self.fp("fpLT", b, a) if op == "min" else self.fp("fpGT", b, a)
            either = self.opaque(node, args)  # 0.0 and -0.0: the language does not say which
            self.constraints.append(z3.Or(either == a, either == b))
            tie = z3.If(a == b, a, either)
            ordered = z3.If(less, a, z3.If(more, b, tie))
            return z3.If(self.fp("fpIsNaN", a), a, z3.If(self.fp("fpIsNaN", b), b, ordered))
        return self.opaque(node, args)

    def real(self, node: Term, args: list[Any]) -> Any:
        z3, op = self.z3, node.op
        if op in ("add", "sub", "mul", "div"):
            a, b = args
            return a + b if op == "add" else a - b if op == "sub" else a * b if op == "mul" else a / b
        if op == "neg":
            return -args[0]
        if op == "abs":
            return z3.If(args[0] < 0, -args[0], args[0])
        if op in ("min", "max"):
            a, b = args
            return z3.If(a <= b, a, b) if op == "min" else z3.If(a <= b, b, a)
        if op in ("isnan", "isinf"):
            return z3.BoolVal(False, self.context)
        return self.opaque(node, args)

    def float_cast(self, node: Term, a: Any) -> Any:
        z3, source, target = self.z3, node.args[0].dtype, node.dtype
        mode = self.form.floats
        if mode == "real" and source in FLOATS and target in FLOATS:
            return a
        if mode == "real" and source == INDEX and not self.width:
            return z3.ToReal(a)
        if mode != "ieee":
            return self.opaque(node, [a])
        nearest = z3.RNE(self.context)
        if target in FLOATS:
            sort = self.sort(target)
            if source in FLOATS:
                return self.fp("fpToFP", nearest, a, sort)
            if source == BOOL:
                return z3.If(a, z3.FPVal(1.0, sort, self.context), z3.FPVal(0.0, sort, self.context))
            if source == INDEX:
                return self.fp("fpSignedToFP", nearest, a, sort) if self.width else self.opaque(node, [a])
            return self.fp("fpSignedToFP" if source in INTS else "fpUnsignedToFP", nearest, a, sort)
        if target == BOOL:
            return z3.Not(self.fp("fpEQ", a, z3.FPVal(0.0, self.sort(source), self.context)))
        return self.opaque(node, [a])

    # -- models --------------------------------------------------------------------------------------------------------

    def values(self, model: Any, variables: Sequence[Variable]) -> tuple[Any, ...]:
        """The values of the variables in a model."""
        return tuple(self.value(model, v, e) for v, e in zip(variables, self.variables, strict=True))

    def value(self, model: Any, v: Variable, expression: Any) -> Any:
        found, dtype = model.eval(expression, model_completion=True), v.leaf.dtype
        if dtype == INDEX:
            return int(found.as_signed_long() if self.width else found.as_long())
        if dtype == BOOL:
            return bool(self.z3.is_true(found))
        if is_int(dtype):
            return int(found.as_signed_long() if dtype in INTS else found.as_long())
        if self.form.floats != "ieee":
            raise Untranslatable
        bits = self.z3.simplify(self.fp("fpToIEEEBV", found))
        return from_bits(int(bits.as_long()), dtype).item() if self.z3.is_bv_value(bits) else float("nan")
