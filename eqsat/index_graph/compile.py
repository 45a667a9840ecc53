"""Declared rules as egglog rules over forms: no rule of the index e-graph is written by hand.

A sum at the root joins one slot per summand, with coefficients up to a scale, and names the result by a mask; a sum
below an operation that reads `K*x + y` joins a split. All arithmetic on constants stands in the rule's body, where an
overflow is a match that does not happen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eqsat.index_graph.reversed import SUFFIX
from eqsat.index_graph.schema import BINARY, MASKED_SLOTS, TESTS
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Kind, Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.rewriting.match import Pattern, pattern_of
from eqsat.rewriting.match_state import Monomial


class NotCompiled(EqsatError):
    """A rule whose shape the index e-graph does not match; the normaliser still uses it."""


@dataclass
class _Compiler:
    pattern: Pattern
    name: str
    body: list[str] = field(default_factory=list[str])
    classes: dict[int, str] = field(default_factory=dict[int, str])
    solved: dict[int, str] = field(default_factory=dict[int, str])
    equations: list[tuple[Monomial, str]] = field(default_factory=list[tuple[Monomial, str]])
    count: int = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def refuse(self, why: str) -> NotCompiled:
        return NotCompiled(f"rule {self.name}", why)

    # -- constants -----------------------------------------------------------------------------------------------------

    def product(self, monomial: Monomial) -> str:
        number, slots = monomial
        text = str(number)
        for k, slot in enumerate(slots):
            text = self.solved[slot] if number == 1 and k == 0 else f"(* {text} {self.solved[slot]})"
        return text

    def solve(self) -> None:
        """Turn the equations between products of constants and matched integers into body atoms."""
        while self.equations:
            for n, ((number, slots), value) in enumerate(self.equations):
                unknown = [s for s in slots if s not in self.solved]
                if len(unknown) > 1:
                    continue
                if not unknown:
                    self.body.append(f"(= {value} {self.product((number, slots))})")
                else:
                    rest = list(slots)
                    rest.remove(unknown[0])
                    name = self.fresh("c")
                    if number == 1 and not rest:
                        self.body.append(f"(= {name} {value})")
                    else:
                        known = self.fresh("k")
                        self.body.append(f"(= {known} {self.product((number, tuple(rest)))})")
                        self.body += [f"(= 0 (% {value} {known}))", f"(= {name} (/ {value} {known}))"]
                    if unknown[0] != self.pattern.scale and self.pattern.kinds[unknown[0]] is Kind.POS:
                        self.body.append(f"(> {name} 0)")
                    self.solved[unknown[0]] = name
                del self.equations[n]
                break
            else:
                raise self.refuse("its constants are not determined by the left side")

    # -- left side -----------------------------------------------------------------------------------------------------

    def match(self, p: Term, e: str) -> None:
        constant = self.pattern.monomial(p)
        slot = self.pattern.slots.get(p)
        if constant is not None:
            value = self.fresh("n")
            self.body.append(f"(= {e} (Num {value}))")
            self.equations.append((constant, value))
        elif slot is not None:
            if slot in self.classes:
                self.body.append(f"(= {e} {self.classes[slot]})")
            else:
                self.classes[slot] = e
        elif p.op == "const" and p.dtype == BOOL:
            self.body.append(f"(= {e} (Truth {p.payload}))")
        elif p.op == "sum":
            self.split(p, e)
        elif p.op in t.COMPARE and p.args[0].dtype == INDEX:
            self.comparison(p, e)
        elif p.dtype == INDEX and p.op in BINARY:
            names = [self.fresh("x") for _ in p.args]
            self.body.append(f"(= {e} ({BINARY[p.op]} {' '.join(names)}))")
            for k in sorted(range(2), key=lambda k: self.pattern.monomial(p.args[k]) is None):
                self.match(p.args[k], names[k])
        elif p.dtype == INDEX and p.op == "abs":
            name = self.fresh("x")
            self.body.append(f"(= {e} (Abs {name}))")
            self.match(p.args[0], name)
        else:
            raise self.refuse(f"{p.op} is not matched")

    def comparison(self, p: Term, e: str) -> None:
        if not any(t.is_const(a, 0) for a in p.args) or p.op == "lt":
            raise self.refuse(f"{p} is not a test of one index against zero")
        inner = p.args[1] if t.is_const(p.args[0], 0) else p.args[0]
        if p.op == "le" and not t.is_const(p.args[0], 0):
            inner = -inner
        name = self.fresh("x")
        self.body.append(f"(= {e} ({TESTS[p.op]} {name}))")
        self.match(inner, name)

    def split(self, p: Term, e: str) -> None:
        items = self.pattern.summands_of(p)
        large = [(c, q) for c, q in items if c[1]]
        small = [q for c, q in items if c == (1, ())]
        if len(large) != 1 or len(large) + len(small) != len(items) or len(small) > 1:
            raise self.refuse(f"the sum {p} below an operation does not read K*x + y")
        f, g, w, q, r = (self.fresh(k) for k in "fgwqr")
        self.body += [f"(= {e} (Lin {f}))", f"(split {f} {g} {w})"]
        self.body += [f"(= {q} (SplitQ {f} {g} {w}))", f"(= {r} (SplitR {f} {g} {w}))"]
        self.equations.append((large[0][0], g))
        self.match(large[0][1], q)
        if small:
            self.match(small[0], r)
        else:
            self.body.append(f"(= {r} (Num 0))")

    def anchored(self, p: Term, number: int) -> str:
        """A sum at the root: the expression of the part that was matched."""
        f = self.fresh("f")
        slots: list[str] = []
        for (factor, constants), q in self.pattern.summands_of(p):
            if q.op in ("var", "const"):
                raise self.refuse(f"the sum {p} has a summand that matches anything")
            j, e, c = self.fresh("j"), self.fresh("e"), self.fresh("c")
            self.body += [f"(= {e} (Slot {f} {j}))", f"(= {c} (coef {f} {j}))", f"(< {j} {MASKED_SLOTS})"]
            self.body += [f"(!= {j} {other})" for other in slots]
            slots.append(j)
            self.equations.append(((factor, (self.pattern.scale, *constants)), c))
            self.match(q, e)
        self.solve()
        mask = f"(<< 1 {slots[0]})"
        for j in slots[1:]:
            mask = f"(| {mask} (<< 1 {j}))"
        self.body.append(f"(= mask {mask})")
        return f"(Part {f} mask {self.solved[self.pattern.scale]} {number})"

    # -- conditions and right side -------------------------------------------------------------------------------------

    def value(self, constant: Monomial) -> str:
        if not constant[1]:
            return str(constant[0])
        name = self.fresh("k")
        self.body.append(f"(= {name} {self.product(constant)})")
        return name

    def condition(self, p: Term) -> None:
        """A lower bound of the difference of the sides, from the bounds of each variable."""
        if p.op not in ("le", "lt") or p.args[0].dtype != INDEX:
            raise self.refuse(f"condition {p} is not an order of indices")
        constant, items = t.linear_parts(p.args[1] - p.args[0])
        low = str(constant)
        for c, x in items:
            fixed, slot = self.pattern.monomial(x), self.pattern.slots.get(x)
            if fixed is not None:
                low = f"(+ {low} {self.product((c * fixed[0], fixed[1]))})"
            elif slot is None:
                raise self.refuse(f"condition on {x}")
            else:
                low = f"(+ {low} (* {c} ({'lo' if c > 0 else 'hi'} {self.classes[slot]})))"
        self.body.append(f"({'<=' if p.op == 'le' else '<'} 0 {low})")

    def build(self, p: Term) -> str:
        constant = self.pattern.monomial(p)
        if constant is not None:
            return f"(Num {self.value(constant)})"
        slot = self.pattern.slots.get(p)
        if slot is not None:
            return self.classes[slot]
        if p.op == "const":
            return f"(Truth {p.payload})"
        if p.op == "sum":
            return self.build_sum(p)
        if p.op in t.COMPARE and p.args[0].dtype == INDEX:
            return self.build_comparison(p)
        if p.op in ("and", "or") and len(p.args) == 2:
            return f"({p.op.capitalize()} -1 {self.build(p.args[0])} {self.build(p.args[1])})"
        if p.dtype == INDEX and p.op in BINARY:
            return f"({BINARY[p.op]} {self.build(p.args[0])} {self.build(p.args[1])})"
        if p.dtype == INDEX and p.op == "abs":
            return f"(Abs {self.build(p.args[0])})"
        if p.op == "prod":
            return self.build_sum(p)
        raise self.refuse(f"{p.op} is not built")

    def build_sum(self, p: Term) -> str:
        text = ""
        for constant, q in self.pattern.summands_of(p):
            part = f"(Num {self.value(constant)})" if q.op == "const" else self.build(q)
            if q.op != "const" and constant != (1, ()):
                part = f"(Scale {self.value(constant)} {part})"
            text = f"(Add {text} {part})" if text else part
        return text

    def build_comparison(self, p: Term) -> str:
        inner = p.args[1] - p.args[0] - (1 if p.op == "lt" else 0)
        return f"({TESTS['le' if p.op == 'lt' else p.op]} {self.build(inner)})"


def may_grow(rule: Rule) -> bool:
    """Whether a rule may make terms larger: it has no tag that says that it ends.

    >>> from eqsat.rules.index_arith import div_div
    >>> from eqsat.rules.minmax_where import min_div
    >>> may_grow(div_div), may_grow(min_div)
    (False, True)
    """
    return not rule.tags & {"normal", "compact", "tight", "finish"}


def compile_rule(rule: Rule, number: int) -> str:
    """The egglog rule of a declared rule; NotCompiled says why there is none.

    >>> from eqsat.rules.index_arith import div_div
    >>> print(compile_rule(div_div, 0))
    (rule ((= e (Div x1 x2)) (= x2 (Num n3)) (= x1 (Div x4 x5)) (= x5 (Num n6)) (= c7 n3) (> c7 0) (= c8 n6) (> c8 0) \
(= k9 (* c7 c8)) (on 0)) ((union e (Div x4 (Num k9)))) :ruleset arith :name "rule 0")
    """
    if rule.name.endswith(SUFFIX) or "expansive" in rule.tags:
        raise NotCompiled(f"rule {rule.name}", "which of its matches are worth a row is seen on terms")
    instance, *others = rule.instances
    if others:
        raise NotCompiled(f"rule {rule.name}", "it is a law for each of many numbers or types")
    if instance.dtype or instance.choices or any(p.kind in (Kind.ANY, Kind.BUFFER) for p in rule.parameters):
        raise NotCompiled(f"rule {rule.name}", "it is not about indices and predicates alone")
    if any(p.kind is Kind.NEG for p in rule.parameters):
        raise NotCompiled(f"rule {rule.name}", "a class has no sign")
    if any(p.kind is Kind.TOTAL for p in rule.parameters):
        raise NotCompiled(f"rule {rule.name}", "whether a class is defined everywhere is not known")
    compiler = _Compiler(pattern_of(rule, 0), rule.name)
    if instance.left.op == "sum":
        left = compiler.anchored(instance.left, number)
    else:
        left = "e"
        compiler.match(instance.left, "e")
        compiler.solve()
    for condition in instance.conditions:
        compiler.condition(condition)
    right = compiler.build(instance.right)
    body = " ".join((*compiler.body, f"(on {number})"))
    return f'(rule ({body}) ((union {left} {right})) :ruleset arith :name "rule {number}")'
