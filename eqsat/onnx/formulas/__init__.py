"""Formulas written as ONNX operators."""
