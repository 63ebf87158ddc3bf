"""Match two dumps of a model whose graph names its tensors: the same in another precision, quantised or optimised."""
