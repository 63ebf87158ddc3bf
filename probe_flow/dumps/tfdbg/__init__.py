"""Runs of the TensorFlow debugger (tfdbg), read without TensorFlow."""
