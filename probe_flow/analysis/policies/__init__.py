"""Policies: rules that turn the measurements of a node into verdicts with reasons."""
