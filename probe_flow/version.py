"""The version of probe_flow."""

__version__ = "0.2.0"
