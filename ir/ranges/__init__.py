"""Bounds of terms: intervals, boxes, rows of bits."""
