"""Mutants of the rules against the prover, judged at numbers by an evaluator of their own; prints a table.

python tests/rules/mutation_campaign.py [--count 300] [--seed 0] [--jobs 2]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from rule_mutants import judged, mutants

from eqsat.rulebook import check_rules
from eqsat.rulebook.parallel import executor_of
from eqsat.rules import scalar_rules


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", default="1")
    asked = parser.parse_args()
    chosen = mutants(scalar_rules(), asked.count, asked.seed)
    with executor_of(asked.jobs) as executor:
        book = check_rules([m.rule for m in chosen], executor)
    table: Counter[tuple[str, str]] = Counter()
    for mutant, report in zip(chosen, book.reports, strict=True):
        verdict = judged(mutant, report.status, report.witness)
        table[mutant.change, verdict] += 1
        if verdict not in ("refuted", "equivalent"):
            print(f"{verdict}: {mutant.rule}  [{report.status}, {report.method}, {report.note}]")
    columns = sorted({verdict for _, verdict in table})
    print(f"{'change':36}{''.join(f'{c:>16}' for c in columns)}{'all':>8}")
    for change in (*sorted({change for change, _ in table}), ""):
        counts = [sum(n for (c, v), n in table.items() if v == column and change in ("", c)) for column in columns]
        print(f"{change or 'all':36}{''.join(f'{n:16}' for n in counts)}{sum(counts):8}")
    bad = sum(n for (_, v), n in table.items() if v.isupper())
    unknown = sum(n for (_, v), n in table.items() if v.startswith("unknown"))
    return 1 if bad or unknown * 20 >= len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
