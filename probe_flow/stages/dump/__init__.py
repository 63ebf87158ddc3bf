"""Stages that adopt or make a dump."""
