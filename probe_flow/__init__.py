"""probe_flow: find the first operator that is wrong on the NPU, from one YAML file."""

__version__ = "0.2.0"
