"""Dumps that are folders of arrays: how they are written, and how those of repeated runs differ."""
