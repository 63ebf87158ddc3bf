"""Dumps of offline models: the device's, and arrays of the original model."""
