"""ONNX models, read without the library: their graph, constants, and the order in which operators can run."""
