"""Stages that examine one dump by itself."""
