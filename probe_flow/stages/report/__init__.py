"""Stages that write results."""
