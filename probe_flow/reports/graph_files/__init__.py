"""Files of graphs for the viewer that users of msprobe know: ``.vis`` (JSON) and ``.vis.db`` (SQLite)."""
