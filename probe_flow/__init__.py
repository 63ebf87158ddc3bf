"""probe_flow: find the first operator that is wrong on the NPU, from one YAML file."""

from probe_flow.version import __version__

__all__ = ["__version__"]
