"""Codes of defects of probe_flow itself (PF9xxx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = ()
