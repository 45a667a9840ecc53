"""Tiles of vector registers in C: every vector of sums a local variable, every load of a step bound to a name.

GNU vector extensions, which gcc, clang and zig share; the same statements as plain loops stand beside them for others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.backends.c.expr import Expressions, Scope
from eqsat.backends.c.types import c_type, literal
from eqsat.backends.c.vector import every_lane
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.registers import APART, EXTREMES, lane_step, rounded_half
from eqsat.backends.machine import BLOCK
from eqsat.ir.dtypes import INDEX, is_float, itemsize
from eqsat.ir.statements.stmt import For, Stmt, Store, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, const_value, int_value, linear_parts
from eqsat.ir.terms.walk import postorder, substitute

WIDE = 100
"""Characters of a line with several statements."""
_SIGNS = {"add": "+", "sub": "-", "mul": "*"}

HEADER = """#if defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#define EQSAT_TILES 1 /* sums in vector registers */
#endif
#if defined(EQSAT_TILES) && !defined(__clang__)
#define PRAGMA(text) _Pragma(#text)
#define ROLLED PRAGMA(GCC unroll 1) /* copies of a step would compete for registers */
#define COPIES(n) PRAGMA(GCC unroll n)
#define FRESH(p) __asm__("" : "+r"(p)) /* what it points to is loaded in each step, not kept from the one before */
#else
#define ROLLED
#define COPIES(n)
#define FRESH(p) ((void)0)
#endif"""


def hold_name(width: int) -> str:
    """The macro that keeps a vector of so many bytes in its register."""
    return f"HOLD{width}"


def define_hold(width: int) -> str:
    """HOLD: the compiler takes the vector for changed, so that it is in a register then, not read for each use."""
    flag = {BLOCK: "__SSE2__", 2 * BLOCK: "__AVX__", 4 * BLOCK: "__AVX512F__"}[width]
    name = hold_name(width)
    lines = [
        f"#if defined(EQSAT_TILES) && defined({flag})",
        f'#define {name}(v) __asm__("" : "+x"(v)) /* in a register, not in memory */',
        "#else",
        f"#define {name}(v) ((void)0)",
        "#endif",
    ]
    return "\n".join(lines)


def vector_name(dtype: str, width: int) -> str:
    """The type of a vector of `width` bytes."""
    return f"tile{width}_{element(dtype)}"


def element(dtype: str) -> str:
    """The dtype in which a vector computes: integers wrap."""
    return dtype if is_float(dtype) else f"uint{8 * itemsize(dtype)}"


def define_vector(dtype: str, width: int) -> str:
    """The type, as it lies at any element in memory."""
    attributes = f"vector_size({width}), aligned({itemsize(dtype)}), may_alias"
    kind = f"typedef {c_type(element(dtype), '')} {vector_name(dtype, width)} __attribute__(({attributes}));"
    return f"#ifdef EQSAT_TILES\n{kind}\n#endif"


def evens_name(dtype: str, width: int) -> str:
    """The macro that reads every other element, in an order of its own."""
    return f"EVENS{width}_{element(dtype)}"


def order_name(dtype: str, width: int) -> str:
    """The macro that puts those in order."""
    return f"ORDER{width}_{element(dtype)}"


def define_evens(dtype: str, width: int) -> str:
    """EVENS: a vector of every other element from p on, of two that read nothing behind the last of them; ORDER.

    A shuffle within 16 bytes is cheap. What it does to the order is undone once, for the results.
    """
    kind, count = vector_name(dtype, width), width // itemsize(dtype)
    quads = range(0, count, 4)
    evens = [n for q in quads for n in (q, q + 2, count + q + 1, count + q + 3)]
    order = [n for half in (0, 2) for q in quads for n in (q + half, q + half + 1)]
    pair = f"*(const {kind} *)(p), *(const {kind} *)((p) + {count - 1})"
    lines = ["#ifdef EQSAT_TILES"]
    heads = [(f"{evens_name(dtype, width)}(p)", pair, evens), (f"{order_name(dtype, width)}(v)", "v, v", order)]
    for compiler, call, start, end in (
        ("#ifdef __clang__", "__builtin_shufflevector", "", ""),
        ("#else", "__builtin_shuffle", f"({vector_name('uint32', width)}){{", "}"),
    ):
        lines.append(compiler)
        for head, operands, places in heads:
            lines.append(f"#define {head} {call}({operands}, {start}{', '.join(map(str, places))}{end})")
    return "\n".join([*lines, "#endif", "#endif"])


def extreme_name(op: str, dtype: str, width: int) -> str:
    """The macro of a maximum or a minimum."""
    return f"{op.upper()}{width}_{element(dtype)}"


def define_extreme(op: str, dtype: str, width: int) -> str:
    """MAX or MIN of two vectors as of two numbers: of equal ones the second, and a NaN if there is one."""
    kind, name, sign = vector_name(dtype, width), extreme_name(op, dtype, width), ">" if op == "max" else "<"
    mask, whole = "__typeof__((a) == (a))", f"((a) {sign} (b)) | ((a) != (a))"
    plain = f"(({kind})((({whole}) & ({mask})(a)) | (~({whole}) & ({mask})(b))))"
    lines = ["#ifdef EQSAT_TILES"]
    letters = "ps" if dtype == "float32" else "pd"
    if width == 2 * BLOCK:
        feature, end = "defined(__AVX__)", f"{letters}256"
        extreme = f"__builtin_ia32_{op}{end}((a), (b))"
        unordered = f"__builtin_ia32_cmp{end}((a), (a), 3)"
        fast = f"__builtin_ia32_blendv{letters}256({extreme}, (a), {unordered})"
    elif width == 4 * BLOCK:
        feature, end = "defined(__AVX512F__) && !defined(__clang__)", f"{letters}512_mask"
        every = every_lane(itemsize(dtype))
        taken = "-1" if dtype == "float32" else every  # gcc has a signed mask there
        extreme = f"__builtin_ia32_{op}{end}((a), (b), ({kind}){{0}}, {taken}, 4)"
        unordered = f"__builtin_ia32_cmp{end}((a), (a), 3, {every}, 4)"
        fast = f"__builtin_ia32_blendm{letters}_512_mask({extreme}, (a), {unordered})"
    else:
        feature = fast = ""
    if feature:
        lines += [f"#if {feature}", f"#define {name}(a, b) (({kind}){fast})", "#else"]
        lines += [f"#define {name}(a, b) {plain}", "#endif"]
    else:
        lines.append(f"#define {name}(a, b) {plain}")
    return "\n".join([*lines, "#endif"])


def round_name(width: int) -> str:
    """The function that rounds the lanes of a vector of float32 to halves, which are float32 again."""
    return f"HALF{width}"


def copies_name(width: int) -> str:
    """The macro for COPIES of a step that rounds vectors of so many bytes to halves."""
    return f"{round_name(width)}_COPIES"


def define_round(width: int) -> str:
    """HALF: by the processor's conversions where it has them; else the bits that a half has no room for are rounded.

    That takes some 25 operations, of which copies of a step would be thousands: longer to compile, not faster.
    """
    floats, bits, name = vector_name("float32", width), vector_name("uint32", width), round_name(width)
    halves = f"{name}_bits __attribute__((vector_size({width // 2}), may_alias))"
    every = every_lane(itemsize("float32"))
    gcc = {
        2 * BLOCK: ("", "__builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(x, 0))"),
        4 * BLOCK: (
            " && defined(__AVX512F__)",
            f"__builtin_ia32_vcvtph2ps512_mask(__builtin_ia32_vcvtps2ph512_mask(x, 0, ({name}_bits){{0}}, {every}), "
            f"({floats}){{0}}, {every}, 4)",
        ),
    }.get(width, (" && 0", "x"))
    clang = f"__builtin_convertvector(__builtin_convertvector(x, {name}_bits), {floats})"
    lines = ["#ifdef EQSAT_TILES"]
    for head, kind, text in (
        ("#if defined(__F16C__) && defined(__clang__)", "__fp16", clang),
        (f"#elif defined(__F16C__) && !defined(__clang__){gcc[0]}", "short", gcc[1]),
    ):
        lines += [head, f"#define {copies_name(width)}(n) COPIES(n)", f"typedef {kind} {halves};"]
        lines += [f"static inline {floats} {name}({floats} x)", "{", f"    return ({floats}){text};", "}"]
    choose = "({0} & {1}) | (~{0} & {2})"
    lines += ["#else", f"#define {copies_name(width)}(n) ROLLED", f"static inline {floats} {name}({floats} x)", "{"]
    lines += [
        f"    const {bits} all = ({bits})x, a = all & 0x7fffffffu, usual = (a + 0x0fffu + (a >> 13 & 1u)) & ~0x1fffu;",
        f"    const {bits} least = ({bits})((({floats})a + 0.5f) - 0.5f); /* the sum is rounded at 2^-24 */",
        f"    const {bits} small = ({bits})(a < 0x38800000u), large = ({bits})(usual >= 0x47800000u);",
        f"    const {bits} nan = ({bits})(a > 0x7f800000u), rest = {choose.format('small', 'least', 'usual')};",
        f"    const {bits} quiet = 0x7fc00000u | (a & 0x007fe000u), beyond = "
        f"{choose.format('nan', 'quiet', '0x7f800000u')};",
        f"    return ({floats})(({choose.format('large', 'beyond', 'rest')}) | (all & 0x80000000u));",
        "}",
    ]
    return "\n".join([*lines, "#endif", "#endif"])


class Tile:
    """Prints the stores of one tile. `name` is the buffer of the sums, `vector` the bytes of a vector register."""

    def __init__(
        self, name: str, dtype: str, vector: int, expressions: Expressions, simplifier: IndexSimplifier
    ) -> None:
        self.name, self.dtype, self.vector = name, dtype, vector
        self.expressions, self.simplifier = expressions, simplifier
        self.sums: dict[int, str] = {}
        self.named: Counter[str] = Counter()
        self.cleared = self.turned = False
        """Whether the sums start as constants, and whether they are held in the order of EVENS."""
        self.pieces: dict[str, str] = {}

    def lines(self, stmt: Stmt) -> list[str]:
        """The lines of loops over rows and lanes around one store."""
        rows: list[For] = []
        while isinstance(stmt, For) and stmt.kind == "unrolled":
            rows.append(stmt)
            stmt = stmt.body
        assert isinstance(stmt, For) and isinstance(stmt.body, Store)
        store, lane, lanes = stmt.body, stmt.axis, stmt.extent
        width = self.vector
        while width > lanes * itemsize(self.dtype):
            width //= 2
        self.width, count = width, width // itemsize(self.dtype)
        self.type = vector_name(self.dtype, width)
        self.pieces |= {"EQSAT_TILES": HEADER, self.type: define_vector(self.dtype, width)}
        starts = [*range(0, lanes - count + 1, count), *([lanes - count] if lanes % count else [])]
        places: list[dict[Term, Term]] = [{}]
        for loop in rows:
            places = [{**p, loop.axis: t.index_const(k)} for p in places for k in range(loop.extent)]
        made: list[list[_Vector]] = []
        for place in places:
            row = [self.simplifier.simplify(substitute(x, place)) for x in stmt_terms(store)]
            made.append([self.vector_of(row, lane, start) for start in starts])
        self.block: list[str] = []
        self.pointers: dict[tuple[str, Term], str] = {}
        self.loaded: dict[_Load, str] = {}
        self.uses = Counter(x for vectors in made for v in vectors for x in v.loads.values())
        for vectors in made:
            self.block += _in_lines([self.store(store.buffer, v) for v in vectors])
        return self.block

    def vector_of(self, row: Sequence[Term], lane: Term, start: int) -> _Vector:
        """The part of a row that one vector holds."""
        here = {lane: t.index_const(start)}
        index, value = row
        loads: dict[Term, _Load] = {}
        for node in postorder(value):
            if node.op == "load":
                there = self.simplifier.simplify(substitute(node.args[0], here))
                loads[node] = _Load(node.payload, there, lane_step(node.args[0], lane) or 0)
        return _Vector(self.simplifier.simplify(substitute(index, here)), value, loads)

    def store(self, buffer: str, vector: _Vector) -> str:
        """One vector to its variable, or to memory."""
        text = self.value(vector)
        self.cleared = self.cleared or vector.value.op == "const"
        if buffer != self.name:
            held = self.held(text) if text in self.sums.values() else ""
            text = f"{order_name(self.dtype, self.width)}({text})" if self.turned else text
            return f"{held}*({self.type} *)({self.address(buffer, vector.index, '')}) = {text};"
        number = int_value(vector.index)
        assert number is not None
        first = f"{self.type} " if number not in self.sums else ""
        name = self.sums.setdefault(number, f"s{len(self.sums)}")
        return f"{first}{name} = {text};"

    def held(self, name: str) -> str:
        """What keeps a vector in its register: one that leaves for a small array was summed in memory by gcc."""
        self.pieces.setdefault(hold_name(self.width), define_hold(self.width))
        return f"{hold_name(self.width)}({name}); "

    def value(self, vector: _Vector) -> str:
        """A vector, or a number for all of its lanes, as C."""
        if vector.value.op == "const":
            number = literal(const_value(vector.value), self.dtype)
            return "{0}" if not const_value(vector.value) else f"({self.type}){{0}} + {number}"
        texts: dict[Term, str] = {}
        for node in postorder(vector.value):
            if node.dtype == INDEX or node.dtype == "float16":
                continue
            exact = rounded_half(node)
            if exact is not None:
                name = round_name(self.width)
                self.pieces.setdefault(vector_name("uint32", self.width), define_vector("uint32", self.width))
                self.pieces.setdefault(name, define_round(self.width))
                texts[node] = f"{name}({texts[exact]})"
            elif node.op == "load":
                texts[node] = self.load(vector.loads[node])
            elif node.op == "const":
                texts[node] = literal(const_value(node), self.dtype)
                if not is_float(self.dtype):
                    texts[node] = f"({c_type(element(self.dtype), '')}){texts[node]}"
            elif node.op in EXTREMES:
                name = extreme_name(node.op, self.dtype, self.width)
                self.pieces.setdefault(name, define_extreme(node.op, self.dtype, self.width))
                texts[node] = f"{name}({', '.join(texts[x] for x in node.args)})"
            else:
                a, b = (self.wrapped(node, x, texts[x]) for x in node.args)
                texts[node] = f"{a} {_SIGNS[node.op]} {b}"
        return texts[vector.value]

    def new(self, first: str) -> str:
        """A name that is new in this tile."""
        self.named[first] += 1
        return f"{first}{self.named[first] - 1}"

    @staticmethod
    def wrapped(node: Term, part: Term, text: str) -> str:
        """An operand, in brackets unless it is a product in a sum."""
        return text if part.op not in _SIGNS or (part.op == "mul" and node.op != "mul") else f"({text})"

    def load(self, load: _Load) -> str:
        """What a load reads: a vector of sums, a vector from memory, or a number; with a name if it is used again."""
        if load.buffer == self.name:
            number = int_value(load.place)
            assert number is not None
            return self.sums[number]
        if load not in self.loaded:
            at = self.address(load.buffer, load.place, fresh=not load.step)
            scalar = c_type(element(self.dtype), "")
            kind, first = (self.type, "v") if load.step else (scalar, "x")
            text = f"*(const {kind} *)({at})" if load.step or not is_float(self.dtype) else f"*({at})"
            if load.step == APART:
                name = evens_name(self.dtype, self.width)
                self.pieces.setdefault(vector_name("uint32", self.width), define_vector("uint32", self.width))
                self.pieces.setdefault(name, define_evens(self.dtype, self.width))
                text = f"{name}({at})" if self.cleared else f"{order_name(self.dtype, self.width)}({name}({at}))"
                self.turned = self.cleared
            if self.uses[load] == 1:
                return text
            name = self.loaded[load] = self.new(first)
            if load.step:
                self.block.append(f"{kind} {name} = {text}; {self.held(name).strip()}")
            else:
                self.block.append(f"const {kind} {name} = {text};")
        return self.loaded[load]

    def address(self, buffer: str, index: Term, const: str = "const ", fresh: bool = False) -> str:
        """A place of memory, from a pointer that all places at a constant distance share."""
        constant, _ = linear_parts(index)
        base = self.simplifier.simplify(index - constant)
        least = self.simplifier.range(base)
        if least is None or least[0] < 0:
            base, constant = index, 0  # no pointer to before the array
        array = self.expressions.buffers[buffer]
        if int_value(base) is None:
            if (buffer, base) not in self.pointers:
                scope = Scope()
                (text,) = self.expressions.print_terms([base], scope)
                name = self.pointers[buffer, base] = self.new("p")
                kind, after = f"{const}{c_type(self.dtype, '')} *", f" FRESH({name});" if fresh else ""
                self.block += [*scope.lines, f"{kind}{'' if fresh else 'const '}{name} = {array} + {text};{after}"]
            array = self.pointers[buffer, base]
        return f"{array} + {constant}" if constant else array


@dataclass(frozen=True, eq=False)
class _Vector:
    """Where one vector goes, what its row is, and what each load of that is here."""

    index: Term
    value: Term
    loads: dict[Term, _Load]


@dataclass(frozen=True)
class _Load:
    """A buffer, an index, and how far it is from one lane to the next there."""

    buffer: str
    place: Term
    step: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Load):
            return NotImplemented
        return (self.buffer, self.step) == (other.buffer, other.step) and self.place is other.place

    def __hash__(self) -> int:
        return hash((self.buffer, self.step, self.place))


def _in_lines(texts: Sequence[str]) -> list[str]:
    """Short statements side by side."""
    lines: list[str] = []
    for text in texts:
        if lines and len(lines[-1]) + len(text) < WIDE:
            lines[-1] += " " + text
        else:
            lines.append(text)
    return lines
