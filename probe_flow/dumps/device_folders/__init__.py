"""Folders of device files: what their names say, the operators and the runs in them."""
