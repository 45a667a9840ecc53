"""The laws of statements: what stands in a sequence, a loop or a branch, and what is equal at a place.

The first part holds whatever the memory is. The second is about statements at a place `p`, a number that stands for
what is known before and what nobody reads after; at first it only takes places apart.
"""

from __future__ import annotations

from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.statements.law import StatementLaw, StatementLaws
from eqsat.rules import all_rules

STATEMENT_LAWS = StatementLaws()
law = STATEMENT_LAWS.law

# -- sequences --------------------------------------------------------------------------------------------------------

law("nothing-first", "(Then (Nop) s)", "s")
law("nothing-last", "(Then s (Nop))", "s")
law("in-a-row", "(Then (Then a b) c)", "(Then a (Then b c))")
law(
    "overwritten", "(Then a b)", "b", "(Covered a b)",
    doc="b writes all that a writes before it reads any of it",
)  # fmt: skip

# -- branches ---------------------------------------------------------------------------------------------------------

law("else-only", "(Branch c (Nop) b)", "(Branch d b (Nop))", "(Negated c d)", instead=True)
law("split-condition", "(Branch c a (Nop))", "(Branch d (Branch e a (Nop)) (Nop))", "(Part c d e)")
law("swap", "(Branch c (Branch d a (Nop)) (Nop))", "(Branch d (Branch c a (Nop)) (Nop))", "(Total d)")
law("where-to-branch", "(Leaf i)", "(Branch c (Leaf j) (Leaf k))", "(Choice i c j k)")
law("join", "(Then (Branch c a b) (Branch d f g))", "(Branch c (Then a f) (Then b g))", "(Alike c d a b)")
law("join-opposite", "(Then (Branch c a b) (Branch d f g))", "(Branch c (Then a g) (Then b f))", "(Opposite c d a b)")

# -- loops ------------------------------------------------------------------------------------------------------------

law("empty-loop", "(Loop h (Nop))", "(Nop)")
law("hoist", "(Loop h s)", "(Branch c (Loop h a) (Loop h b))", "(= s (Branch c a b))", "(Fixed h c s)")
law(
    "hoist-first", "(Loop h s)", "(Branch c (Loop h (Then a r)) (Loop h (Then b r)))",
    "(= s (Then y r))", "(= y (Branch c a b))", "(Bound h y r)", "(Fixed h c s)",
    doc="out of loops that are not two loops: the branch alone is hoisted out of its own loop",
)  # fmt: skip
law(
    "hoist-last", "(Loop h s)", "(Branch c (Loop h (Then x a)) (Loop h (Then x b)))",
    "(= s (Then x y))", "(= y (Branch c a b))", "(Bound h x y)", "(Fixed h c s)",
)  # fmt: skip
law(
    "hoist-between", "(Loop h s)", "(Branch c (Loop h (Then x (Then a r))) (Loop h (Then x (Then b r))))",
    "(= s (Then x z))", "(= z (Then y r))", "(= y (Branch c a b))", "(Woven h x y r)", "(Fixed h c s)",
)  # fmt: skip
law(
    "merge-loops", "(Then (Loop h a) (Loop h b))", "(Loop h (Then a b))", "(Merging h a b)",
    doc="a loop at a time: of a first that was two loops, the last is merged with what follows before",
)  # fmt: skip
law(
    "split-loop", "(Loop h s)", "(Then (Loop h a) (Loop h b))", "(Written h s)", "(= s (Then a b))", "(Together h a b)",
    doc="only as the function is written: what was merged need not be split again",
)  # fmt: skip
law(
    "past", "(Then (Loop h a) (Then x y))", "(Then (Loop h a) (Then y x))",
    "(= y (Loop h b))", "(Other h x)", "(Apart x y)",
)  # fmt: skip
law(
    "past-one", "(Then (Loop h a) (Then x (Then y r)))", "(Then (Loop h a) (Then y (Then x r)))",
    "(= y (Loop h b))", "(Other h x)", "(Apart x y)",
)  # fmt: skip

# -- buffers ----------------------------------------------------------------------------------------------------------

law("made-before", "(Then x (Local l s))", "(Local l (Then x s))", "(Idle l x)")
law("kept-on", "(Then (Local l s) r)", "(Local l (Then s r))", "(Idle l r)")

# -- places -----------------------------------------------------------------------------------------------------------

law("at-sequence", "(At p (Then a b))", "(Seq p (At q a) (At r b))", "(Between p a b q r)")
law("at-loop", "(At p (Loop h s))", "(Repeat p h (At q s))", "(Inside p h s q)")
law("at-branch", "(At p (Branch c a b))", "(Choose p c (At q a) (At r b))", "(Under p c q r)")
law("at-local", "(At p (Local l s))", "(Within p l (At q s))", "(Around p l s q)")

law("simpler", "(At p (Leaf i))", "(At p (Leaf j))", "(Simpler p i j)")
law(
    "needless", "(At p (Leaf i))", "(At p (Nop))", "(Needless p i)", doc="it writes what is there, or what nobody reads"
)
law("always", "(At p (Branch c a b))", "(At p a)", "(Decided p c 1)")
law("never", "(At p (Branch c a b))", "(At p b)", "(Decided p c 0)")
law("shorter", "(At p (Branch c a b))", "(At p (Branch d a b))", "(Shorter p c d)")
law(
    "no-difference", "(At p (Branch c a b))", "(At p s)", "(Under p c q r)",
    "(= x (At q a))", "(= x (At q s))", "(= y (At r b))", "(= y (At r s))", "(Reads q s a)", "(Reads r s b)",
    doc="a statement that is equal to each arm where that arm runs",
)  # fmt: skip
law(
    "overcompute", "(At p (Branch c a (Nop)))", "(At p a)", "(Under p c q r)", "(Safe r a)",
    "(= (At r a) (At r (Nop)))", makes=("(At r a)", "(At r (Nop))"),
    doc="a branch goes where what it kept from running makes no difference",
)  # fmt: skip
law("smaller", "(At p (Loop h s))", "(At p t)", "(Smaller p h s t)")


def all_declared() -> list[Rule | Law | StatementLaw]:
    """Everything that `eqsat rules list` lists: rules of indices and data, laws of tensors, and those of statements."""
    return [*all_rules(), *STATEMENT_LAWS]
