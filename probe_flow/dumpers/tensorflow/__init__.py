"""Run a TensorFlow graph in a session without rewrites, and write every tensor that can be fetched."""
