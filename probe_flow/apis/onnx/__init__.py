"""Operators of ONNX graphs, run one by one or as a part of their graph: by ONNX Runtime, and in float64."""
