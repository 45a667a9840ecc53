"""Formulas of ONNX operators that stay one node."""
