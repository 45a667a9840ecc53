"""Scalar rules at work: simplify, its trials, normal forms."""
