"""Plans as rules of the graph: one that asks, and one that makes the right side from an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from eqsat.ir.law import Expr, Law, nodes, operator_of
from eqsat.laws.plan import Plan
from eqsat.laws.tree import Class, Operated, Tree, Viewed, text, vector

KINDS = {"select": "selection", "pointwise": "pointwise", "combine": ""}
"""What an operator of the graph has to be so that a law may take it for a kind of its own."""


def relation(plan: Plan) -> str:
    """The name that is part of the relations of a plan's questions and answers."""
    return "".join(c if c.isalnum() else "_" for c in plan.name)


def need(plan: Plan) -> str:
    """The relation of a plan's questions."""
    return f"need_{relation(plan)}"


def answers(plan: Plan) -> str:
    """The relation of a plan's answers."""
    return f"found_{relation(plan)}"


def apart(plan: Plan) -> str:
    """The relation of questions about views of views that stay two views."""
    return f"apart_{relation(plan)}"


def composes(plan: Plan) -> bool:
    """Whether a law says that views of views are views, and nothing else. Then it is enough, where chains are long, to
    compose what is read from a *base*: a leaf, a result, what is read elsewhere too, or what does not compose with what
    is below, in any layout. All pairs of views in a chain would be its length squared, and three ways to most."""
    left, right = plan.law.left, plan.law.right
    tree = plan.left
    return (
        isinstance(tree, Viewed)
        and isinstance(tree.source, Viewed)
        and isinstance(tree.source.source, Class)
        and right.op == left.op
        and any(isinstance(x, Expr) and x.op == "compose" for x in right.args)
    )


def _staying(plan: Plan, body: str, asked: str) -> tuple[str, str]:
    """The relation of views of a base that stay two, and the rule that makes a base of what lies between them."""
    sorts = " ".join("i64" for _ in plan.question)
    stays = f'(rule ({body} ({apart(plan)} {asked})) ((base c1))\n  :ruleset laws :name "ask base {plan.name}")'
    return f"(relation {apart(plan)} ({sorts}))", stays


def is_direct(plan: Plan) -> bool:
    """Whether a law's match says all: nothing is asked."""
    return not plan.made and not plan.law.hypotheses


def rules(plan: Plan, shape: int | None) -> str:
    """The relations and rules of a plan; `shape` is the number of its shape.

    >>> from eqsat.laws.plan import plans
    >>> from eqsat.rules.layout_laws import identity_view
    >>> print(rules(next(plans(identity_view, None)), None))
    (rule ((= e (View x1 m0)) (identity m0)) ((union e x1))
      :ruleset laws :name "identity")
    """
    atoms = _Matcher(plan, shape).atoms
    body = " ".join(atoms)
    act = f'((union e {text(plan.right)}))\n  :ruleset laws :name "{plan.name}"'
    if is_direct(plan):
        return f"(rule ({body}) {act})"
    asked, given = " ".join(plan.question), " ".join((*plan.question, *plan.answer))
    own: tuple[str, ...] = ()
    asking = " ".join(_telling(atoms, asked))
    if composes(plan):
        own = _staying(plan, body, asked)
        (source,) = plan.classes.values()
        body += f" (base {source})"
        asking = body
    sorts = [" ".join("i64" for _ in names.split()) for names in (asked, given)]
    return "\n\n".join([
        f"(relation {need(plan)} ({sorts[0]}))",
        f"(relation {answers(plan)} ({sorts[1]}))",
        f'(rule ({asking}) (({need(plan)} {asked}))\n  :ruleset laws :name "ask {plan.name}")',
        f"(rule (({need(plan)} {asked})) ((delete ({need(plan)} {asked}))) :ruleset answered)",
        *_acting(plan, f"{body} ({answers(plan)} {given})", act),
        *own,
    ])  # fmt: skip


def _telling(atoms: Sequence[str], asked: str) -> list[str]:
    """The atoms that a question depends on: each result has the operands that its shape says, whatever they are."""
    used = Counter(word.strip("()") for atom in [*atoms, f"({asked})"] for word in atom.split())
    told = {a: a.strip("()").split() for a in atoms if a.startswith("(operand ")}
    return [a for a in atoms if a not in told or not told[a][2].isdigit() or used[told[a][3]] > 1]


def _acting(plan: Plan, body: str, act: str) -> list[str]:
    """The rules that make the right side; where that views operands, only if the graph has use for those views."""
    views = [f"{text(x.source)} {x.map}" for x in _views(plan)]
    kinds = {made.kind for made in plan.made}
    if "cut" in kinds:
        return _asking(plan, body, act, views, "part")
    if "moved" not in kinds:
        return [f"(rule ({body}) {act})"]
    if not isinstance(plan.left, Viewed):
        return _asking(plan, body, act, views, "placed")
    # One operand takes the view of the result; more of them would have to be moved for one that was.
    rules = [_asking(plan, body, act, [*views[:k], *views[k + 1 :]], "placed") for k in range(len(views))]
    return list(dict.fromkeys(rule for some in rules for rule in some))


def _asking(plan: Plan, body: str, act: str, views: list[str], relation: str) -> list[str]:
    """The rule that acts if some views of operands are known, and the one that asks whether they are."""
    if not views:
        return [f"(rule ({body}) {act})"]
    asked, known = (" ".join(f"({name} {x})" for x in views) for name in (f"need_{relation}", relation))
    name = f':ruleset laws :name "ask {relation} {plan.name} {" ".join(views)}"'
    return [f"(rule ({body}) ({asked})\n  {name})", f"(rule ({body} {known}) {_named(act, views)})"]


def _named(act: str, views: list[str]) -> str:
    """The same action by a name of its own, behind what tells which views are known."""
    return act.replace(":ruleset laws", ":ruleset known")[:-1] + f' {" ".join(views)}"' if views else act


def _views(plan: Plan) -> Iterator[Viewed]:
    """The views of operands that a right side takes."""
    tree = plan.right
    while isinstance(tree, Viewed):
        tree = tree.source
    if isinstance(tree, Operated):
        yield from (x for x in tree.operands if isinstance(x, Viewed))


class _Matcher:
    """The atoms of a left side, from the root down."""

    def __init__(self, plan: Plan, shape: int | None) -> None:
        self.plan, self.shape = plan, shape
        self.atoms: list[str] = []
        self.names = 0
        self.guarded = False
        self.match(plan.left, "e")
        for k, name in enumerate(plan.values):
            self.atoms.append(f"(= n{k} (vid {plan.classes[name]}))")
        self.atoms += [f"(= u{k} (vid v{k}))" for k in plan.unvarying]

    def match(self, tree: Tree, at: str, below: str = "") -> None:
        if isinstance(tree, Class):
            if tree.name != at:
                self.atoms.append(f"(= {at} {tree.name})")
        elif isinstance(tree, Viewed):
            inside, needs = self.named(tree.source), self.map(tree.map, below)
            moves = "unabsorbed" in needs
            self.atoms.append(f"(moves {at} {inside} {tree.map})" if moves else f"(= {at} (View {inside} {tree.map}))")
            self.atoms += [f"({x} {tree.map})" for x in needs if x != "unabsorbed"]
            self.match(tree.source, inside, "view")
        else:
            names = [self.named(x) for x in tree.operands]
            self.atoms.append(f"(= {at} (Hub s o v))")
            if KINDS[tree.kind]:
                self.atoms.append(f"({KINDS[tree.kind]} s)")
            if self.shape is not None:
                self.atoms.append(f"(shape s {self.shape})")
            places = [tree.place] if tree.place else [str(k) for k in range(len(names))]
            self.atoms += [f"(operand v {k} {name})" for k, name in zip(places, names, strict=True)]
            for x, name in zip(tree.operands, names, strict=True):
                self.match(x, name, below or tree.kind)

    def map(self, name: str, below: str) -> list[str]:
        """What a map has to be. Operators absorb layouts, which only change the order of axes: laws of views need not
        see those, but for the views that a selection is between. They see the rows of `moves`, few beside all views."""
        op = self.plan.maps[name].op
        if any(made.kind == "moved" for made in self.plan.made):
            return ["bijective", "unabsorbed"]
        if op in ("identity", "bijection"):
            return ["identity" if op == "identity" else "bijective"]
        return ["unabsorbed"] if below in ("", "pointwise", "combine") else []

    def named(self, tree: Tree) -> str:
        if isinstance(tree, Class):
            return tree.name
        self.names += 1
        return f"c{self.names}"


def spelling(law: Law, arity: int) -> str:
    """The rule that makes the forms of operators with this many operands, from a law that sees an operator in another
    layout as one over other layouts of its operands."""
    assert operator_of(law.left) is not None
    operands = " ".join(f"(operand v {k} x{k}) (form_operand f {k} m{k})" for k in range(arity))
    views = vector([f"(View x{k} m{k})" for k in range(arity)])
    return (
        f"(rule ((= h (Hub s o v)) (form s f) (form_output f o mo) (arity v {arity}) {operands})\n"
        f'  ((union (View h mo) (Form f o {views}))) :ruleset layouts :name "{law.name}/{arity}")'
    )


def spells(law: Law) -> bool:
    """Whether a law is one that targets' forms are instances of."""
    return _absorbs(law) and _laid_out(law)


def acts(law: Law) -> bool:
    """Whether a law is a rule of the graph by itself: views are absorbed into accesses while a program is loaded, and
    axioms are what operators mean."""
    own = any(e.op in ("combine_moved", "combine_within") for e in nodes(law.right))
    return not law.axiom and (not _absorbs(law) or own or (law.right.op == "combine_at" and not _laid_out(law)))


def _absorbs(law: Law) -> bool:
    return any(e.op == "read_through" for e in nodes(law.right))


def _laid_out(law: Law) -> bool:
    """Whether the right side is the operator in another layout."""
    m = law.right.args[0]
    return law.right.op == "combine_at" and isinstance(m, Expr) and m.op == "bijection"
