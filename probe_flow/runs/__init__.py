"""Stored runs: questions, differences, baselines, drawings, without the dumps."""
