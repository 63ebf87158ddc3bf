"""One training step under TensorFlow's debugger: of a TF1 graph in a session, or of a Keras model."""
