"""Statements in an e-graph: what equals what by declared laws, and the cheapest of it (`optimize`)."""
