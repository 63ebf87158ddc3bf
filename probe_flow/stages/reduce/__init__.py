"""Stages that reduce a dump to statistics."""
