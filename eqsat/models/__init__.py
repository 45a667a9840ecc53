"""ONNX models as the packages `onnx` and `onnxruntime` see them: types, sessions, shape inference behind a guard."""
