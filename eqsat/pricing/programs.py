"""What a program costs in time, as it stands: its views and its operators, in the orders of axes that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.size_terms import shape_size
from eqsat.ir.tensors.tensor import Compute, Input, Node, Opaque, Program, Tensor, View, is_ahead
from eqsat.ir.terms.shape import output_axes, reduce_axes, same_dim, same_shape, static_shape
from eqsat.ir.terms.walk import nodes_of
from eqsat.operators.bundles import bundles_of
from eqsat.operators.forms import is_selection_node
from eqsat.operators.labels import OpaqueKind, labels_of
from eqsat.pricing.operators import Origin, may_add, operator_price
from eqsat.pricing.table import Table
from eqsat.pricing.views import is_reshape, kind_of_move, view_price

Path = tuple[tuple[int, bool], ...]
LONGEST = 8
"""So many operators of a function are looked at."""


def program_price(program: Program, table: Table, stands: bool = False) -> int:
    """The estimated picoseconds of a program; stands: as the model that it was read from, not written anew.

    >>> from eqsat.ir.tensors.tensor import input
    >>> from eqsat.pricing.table import shipped
    >>> x = input("x", (64, 64), "float32")
    >>> plain, turned = Program([x], {"y": x.relu()}), Program([x], {"y": x.permute_dims((1, 0)).relu()})
    >>> program_price(plain, shipped()) < program_price(turned, shipped())
    True
    """
    key = table, stands, tuple(x.key for x in program.outputs.values())
    known = _known.get(program)
    if known is None or known[0] != key:
        known = _known[program] = key, sum(price for _, price in node_prices(program, table, stands))
    return known[1]


_known: WeakKeyDictionary[Program, tuple[object, int]] = WeakKeyDictionary()
"""Of the programs that are in use: each is asked for where it is made, compared and reported."""


def node_prices(program: Program, table: Table, stands: bool = False) -> Iterator[tuple[Node, int]]:
    """The estimated picoseconds of each node; inputs, and what is computed from constants alone, have none; what has
    symbols in its shape is computed in each call."""
    uses = Counter(x.node.serial for node in program.nodes() for x in node.operands)
    uses.update(x.node.serial for x in program.outputs.values())
    constants, alone = set[int](), {serial for serial, times in uses.items() if times == 1}
    splits: set[object] = set()
    functions, prices = _Functions(constants), dict[int, int]()
    for node in program.nodes():
        if isinstance(node, Input) and not node.parameter:
            continue
        made = node.operands and all(x.node.serial in constants for x in node.operands)
        if is_ahead(node) or (made and all(static_shape(shape) is not None for shape, _ in node.outputs)):
            constants.add(node.serial)
            continue
        price = node_price(node, constants, alone, table, stands)
        prices[node.serial] = price
        if functions.is_torn_apart(node):
            shape, dtype = node.outputs[0]
            price += table.moved("apart", sampled(shape_size(shape)), 1, itemsize(dtype))
            # With a sum, all of its operators would be one, of about the price of the last.
            price += sum(prices.get(serial, 0) for serial in functions.summed.get(node.serial, ()))
        if isinstance(node, View) and node.tag is not None and kind_of_move(node.tag.name) == "split":
            # Names with a dot are notes of a front end, as the number of the output: views of one split differ in it.
            attrs = tuple(item for item in node.tag.attrs if "." not in item[0])
            if (node.source.key, attrs) in splits:
                price -= round(table.operators["node"])
            splits.add((node.source.key, attrs))
        yield node, price


class _Functions:
    """Functions that are written as several element-wise operators over one tensor, which they read more than once: a
    runtime makes one operator of all, as of x * sigmoid(x), unless a reshape stands inside. So it does where a tensor
    is divided by a root of a sum over it, along the last axis, which stays."""

    def __init__(self, constants: set[int]) -> None:
        self.constants = constants
        self.paths: dict[int, Path] = {}
        """For each node that depends on one tensor: the nodes through which all of that goes, and which reshape."""
        self.reshapes: dict[object, int] = {}
        """The first of all reshapes that are one."""
        self.whole: set[int] = set()
        """The nodes that end such a function, further operators with numbers included."""
        self.sums: set[int] = set()
        self.roots: set[int] = set()
        self.summed: dict[int, set[int]] = {}
        """The operators inside of functions with a sum that are torn apart, by their last ones."""

    def is_torn_apart(self, node: Node) -> bool:
        """Whether a node is the first that has a reshape behind it in such a function; asked of all, operands first."""
        if isinstance(node, View) and is_reshape(node):
            shape = tuple(d if isinstance(d, int) else (d.serial,) for d in node.outputs[0][0])
            first = self.reshapes.setdefault((node.source.key, shape), node.serial)
            self.paths[node.serial] = self._path(node.source.node.serial, first, True)
            return False
        if isinstance(node, Compute) and node.combiner == "sum" and len(node.operands) == 1:
            self.sums.add(node.serial)
            self.paths[node.serial] = self._path(node.operands[0].node.serial, node.serial, not _keeps_last(node))
        if not isinstance(node, Compute) or node.combiner is not None or is_selection_node(node):
            return False
        if node.body.op == "sqrt":
            self.roots.add(node.serial)
        numbers = [x for x in node.operands if x.node.serial in self.constants]
        given = [x for x in node.operands if x.node.serial not in self.constants]
        if not given or any(not same_dim(d, 1) for x in numbers for d in x.shape):
            return False
        sources = [x.node.serial for x in given]
        return self._goes_on(node, sources[0]) if len(sources) == 1 else self._meets(node, sources)

    def _goes_on(self, node: Node, source: int) -> bool:
        path = self._path(source, node.serial, False)
        last = next((serial for serial, reshapes in path[-2::-1] if not reshapes), -1)
        if last not in self.whole:
            self.paths[node.serial] = path
            return False
        if path[-2][0] == last:
            self.whole.add(node.serial)
            self.paths[node.serial] = path
            return False
        return True

    def _meets(self, node: Node, sources: Sequence[int]) -> bool:
        paths = [self.paths.get(serial, ((serial, False),)) for serial in sources]
        shared = 0
        while all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
            shared += 1
        inside = {serial for path in paths for serial, _ in path[shared:]}
        if not shared or (inside & self.sums and not inside & self.roots):
            return False
        if any(reshapes for path in paths for _, reshapes in path[shared:]):
            self.summed[node.serial] = inside if inside & self.sums else set()
            return True
        self.paths[node.serial] = (*paths[0][:shared], (node.serial, False))[-LONGEST:]
        self.whole.add(node.serial)
        return False

    def _path(self, source: int, own: int, reshapes: bool) -> Path:
        return (*self.paths.get(source, ((source, False),)), (own, reshapes))[-LONGEST:]


def _keeps_last(node: Compute) -> bool:
    """Whether a reduction is one along the last axis, which it keeps."""
    loads, wanted = nodes_of("load", node.body), (*output_axes(node.shape)[:-1], *reduce_axes(node.reduce))
    if len(loads) != 1 or len(node.reduce) != 1 or len(loads[0].args) != len(wanted):
        return False
    return all(a.same(b) for a, b in zip(loads[0].args, wanted, strict=True))


def node_price(node: Node, constants: set[int], alone: set[int], table: Table, stands: bool = False) -> int:
    """The picoseconds of a node; constants, and nodes with one user, are known; stands: as what it was read from."""
    if isinstance(node, View):
        return round(table.operators["reshape"]) if is_reshape(node) else view_price(node, table, stands)
    if not isinstance(node, (Compute, Opaque)):
        return round(table.operators["node"])
    op = labels_of(node) if isinstance(node, Compute) else bundles_of(node)
    origins: list[Origin] = [_origin(node.operands[k], constants, alone) for k in op.accesses]
    price = operator_price(op.kind, op.labels, op.operands, op.outputs, origins, table)
    return price + _joined(node, origins, constants, alone, price, table)


def _joined(
    node: Compute | Opaque, origins: Sequence[Origin], constants: set[int], alone: set[int], price: int, table: Table
) -> int:
    """What it adds that a runtime makes one operator of two, by the dimensions in which these are written: it sums two
    tensors of three dimensions as it normalises the sum, cell by cell; and before and after a product to which it adds
    a row, in more dimensions than two, it reshapes."""
    if isinstance(node, Opaque):
        return _normalised_sum(node, constants, alone, table)
    if price == 0 and "product" in origins and len(node.outputs[0][0]) > 2:
        shape = node.outputs[0][0]
        rows = [x for x in node.operands if x.node.serial in constants and x.rank == 1]
        if rows and all(isinstance(d, int) for d in shape):
            return 2 * round(table.operators["reshape"])
    return 0


def _normalised_sum(node: Opaque, constants: set[int], alone: set[int], table: Table) -> int:
    x = node.operands[0] if node.operands else None
    if x is None or x.rank != 3 or len(node.operands) < 2 or not isinstance(x.node, Compute):
        return 0
    if x.node.serial not in alone or x.node.combiner is not None or x.node.body.op != "add":
        return 0
    kind = bundles_of(node).kind
    assert isinstance(kind, OpaqueKind)
    along = tuple(kind.dims[0][-1:])
    by_rows = all(dims == along for dims in kind.dims[1 : len(node.operands)]) and kind.dims[-1] == kind.dims[0]
    whole = [y for y in x.node.operands if same_shape(y.shape, x.shape)]
    if not by_rows or len(whole) != 2 or not all(isinstance(d, int) for d in x.shape[1:]):
        return 0
    return table.moved("norm_of_sum", sampled(shape_size(x.shape)), 1, itemsize(x.dtype))


def _origin(x: Tensor, constants: set[int], alone: set[int]) -> Origin:
    if x.node.serial in constants:
        return "constant"
    if not isinstance(x.node, Compute) or x.node.serial not in alone:
        return ""
    op = labels_of(x.node)
    return "product" if may_add(op.kind, op.labels, op.operands, op.outputs) else ""
