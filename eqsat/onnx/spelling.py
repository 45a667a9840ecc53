"""Programs as they are spelled: the model of each, and what its nodes move there beyond what their formulas say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from onnx import ModelProto

from eqsat.checking.verdict import CheckFailure
from eqsat.engine import UNSPELLED
from eqsat.extraction.cost import layout_nodes
from eqsat.ir.errors import EqsatError, FrontendError
from eqsat.ir.tensors.tensor import Program
from eqsat.onnx.bytes import beside, bytes_of_outputs
from eqsat.onnx.read import ModelValues, OnnxProgram, read_with_types
from eqsat.onnx.write import NotWritten, write_with_owners
from eqsat.pricing.table import Table


@dataclass(frozen=True)
class Spelled:
    """A program's model, that model read back, and for each of its values the program's node that it belongs to."""

    model: ModelProto
    program: OnnxProgram
    values: ModelValues
    owners: Mapping[str, int]


class Spelling:
    """Programs that came of searching one model, each written once."""

    def __init__(self, like: OnnxProgram, domains: Collection[str] = (), table: Table | None = None) -> None:
        self.like = like
        self.table = table
        self.domains = domains
        self._known: list[tuple[Program, Spelled]] = []

    def of(self, program: Program) -> Spelled:
        """A program as a model; CheckFailure where that is no valid model."""
        for known, spelled in self._known:
            if known is program:
                return spelled
        some = program.outputs.keys() < self.like.outputs.keys()
        like = self.like.with_some(program.outputs) if some else self.like
        model, owners = write_with_owners(program, like, self.domains, self.table)
        try:
            found = Spelled(model, *read_with_types(model, like=like), owners)
        except FrontendError as error:
            raise CheckFailure("the written model", str(error)) from error
        self._known.append((program, found))
        return found

    def beyond(self, program: Program) -> Mapping[int, int]:
        """The nodes of a program, by their serials, that cost more as they are spelled than as they stand: in bytes
        that they move, or by prices, which know all but the arithmetic of sizes.

        Of a program that cannot be written, that is the node for which it fails. Where it is no single node, nothing is
        known here: who writes it meets the error.
        """
        try:
            spelled = self.of(program)
        except NotWritten as error:
            return {error.node.serial: UNSPELLED}
        except EqsatError:
            return {}
        if self.table is not None:
            nodes = beside(spelled.model, spelled.program, spelled.values)
            owners = Counter(spelled.owners[n.output[0]] for n in nodes if n.output[0] in spelled.owners)
            return {owner: count * round(self.table.operators["node"]) for owner, count in owners.items()}
        claimed = {node.serial: moved for node, moved in layout_nodes(program)}
        written: dict[int, int] = {}
        for node in spelled.model.graph.node:
            for name, moved in bytes_of_outputs(node, spelled.values).items():
                owner = spelled.owners.get(name)
                if owner is not None:
                    written[owner] = written.get(owner, 0) + moved
        extra = {owner: moved - claimed.get(owner, 0) for owner, moved in written.items()}
        return {owner: moved for owner, moved in extra.items() if moved > 0}
