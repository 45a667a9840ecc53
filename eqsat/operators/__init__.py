"""Operators by their axes, views as an algebra, and the numbers by which a search knows both."""
