"""Tensor programs: nodes, operators, shapes, views, text, JSON, numpy meaning."""
