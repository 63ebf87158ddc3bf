"""Stages that write scripts which run one API again."""
