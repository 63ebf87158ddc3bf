"""Run an ONNX model by ONNX Runtime, segment by segment, and write every tensor that a node gives."""
