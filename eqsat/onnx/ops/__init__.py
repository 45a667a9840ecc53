"""The table of ONNX operators: what each reads as."""
