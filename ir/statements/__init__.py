"""Statements: loops and stores, their check and numpy meaning."""
