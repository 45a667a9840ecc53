"""Index terms in an e-graph: scalar rules compiled, sums, extraction, explanations."""
