"""Packaged workflows, and those of installed packages."""
