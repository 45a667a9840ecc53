"""The tensor e-graph: programs encoded as classes, rules and answers of the index level, the search."""
