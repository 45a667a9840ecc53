"""What a check says of rules: a status for each, with its witness, as text, JSON and JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["proved", "axiom", "proved-bounded", "tested", "refuted", "unknown"]
BELIEVED: tuple[Status, ...] = ("proved", "axiom")
WORST_FIRST: tuple[Status, ...] = ("refuted", "unknown", "tested", "proved-bounded", "axiom", "proved")


@dataclass(frozen=True)
class RuleReport:
    """What is known about one rule. `witness`: values that refute it; `seconds`: time of the check; `note`: also why it
    can act nowhere, if so."""

    name: str
    family: str
    status: Status
    method: str
    seconds: float
    witness: Mapping[str, Any] | None = None
    note: str = ""
    text: str = ""

    @property
    def where(self) -> str:
        """Where it is wrong; of a law, the note shows that as tensors."""
        model = self.witness is not None and "left[i]" in self.witness
        return f" at {dict(self.witness)}" if self.witness and not model else ""

    def __str__(self) -> str:
        line = f"{self.status:14} {self.seconds:6.2f}s  {self.name}{self.where}  [{self.method}]"
        return f"{line}\n{'':23}{self.note}" if self.note else line


@dataclass(frozen=True)
class Rulebook:
    """The reports of a check, in the order of the rules."""

    reports: tuple[RuleReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every rule is proved or an axiom."""
        return all(r.status in BELIEVED for r in self.reports)

    def __getitem__(self, name: str) -> RuleReport:
        return next(r for r in self.reports if r.name == name)

    def counts(self) -> dict[str, int]:
        """The number of rules of each status."""
        found = {status: sum(r.status == status for r in self.reports) for status in reversed(WORST_FIRST)}
        return {status: n for status, n in found.items() if n}

    def to_json(self) -> str:
        """The reports as JSON."""
        return json.dumps(self.data(), indent=1, default=str)

    def data(self) -> dict[str, Any]:
        """The reports as plain data."""
        return {"ok": self.ok, "counts": self.counts(), "rules": [asdict(r) for r in self.reports]}

    def to_junit(self) -> str:
        """The reports as JUnit XML: a rule that is not believed is a failure."""
        failures = sum(r.status not in BELIEVED for r in self.reports)
        head = f'<testsuite name="rules" tests="{len(self.reports)}" failures="{failures}">'
        return "\n".join(['<?xml version="1.0"?>', head, *map(_case, self.reports), "</testsuite>"])

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {status}" for status, n in self.counts().items())
        return "\n".join([*map(str, self.reports), counts])


def _case(report: RuleReport) -> str:
    from xml.sax.saxutils import escape, quoteattr  # it imports half of the web, and every optimiser comes by here

    head = f"<testcase classname={quoteattr('rules.' + report.family)} name={quoteattr(report.name)}"
    head += f' time="{report.seconds:.3f}"'
    if report.status in BELIEVED:
        return head + "/>"
    return f"{head}><failure message={quoteattr(str(report))}>{escape(report.text)}</failure></testcase>"
