"""Matching by structure, where names say nothing."""
