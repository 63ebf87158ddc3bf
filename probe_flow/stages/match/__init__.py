"""Stages that pair two dumps."""
