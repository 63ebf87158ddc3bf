"""Graphs as ``.vis.db``: the SQLite database of msprobe 26.2.0, one for all steps and ranks.

Source: the tables and indexes that msprobe 26.2.0 makes. Where it writes from several processes, one writer here takes
graph after graph in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probe_flow.files.atomic import atomic_path
from probe_flow.records.model_graph import GraphPair, ModelGraph
from probe_flow.reports.graph_files.items import ItemStyle
from probe_flow.reports.graph_files.json_texts import json_name, json_string
from probe_flow.reports.graph_files.legend import TASKS, colours, explained
from probe_flow.reports.graph_files.nodes import CODES, data_folder, node_facts
from probe_flow.reports.graph_files.stacks import frames_of

_NODES = (
    "id TEXT PRIMARY KEY, graph_id TEXT NOT NULL, node_order INTEGER NOT NULL, node_name TEXT NOT NULL, "
    "node_type TEXT NOT NULL, up_node TEXT, sub_nodes TEXT, precision_index INTEGER, overflow_level TEXT, "
    "micro_step_id INTEGER NOT NULL, matched_node_link TEXT, stack_id TEXT, parallel_merge_info TEXT, "
    "matched_distributed TEXT, modified INTEGER NOT NULL, input_data TEXT, output_data TEXT, data_source TEXT, "
    "dump_data_dir TEXT, step INTEGER NOT NULL, rank INTEGER NOT NULL, is_distributed INTEGER"
)
_STACKS = "id TEXT PRIMARY KEY, stack_info TEXT"
_CONFIG = (
    "id TEXT PRIMARY KEY, graph_type TEXT NOT NULL, task TEXT, tool_tip TEXT, micro_steps INTEGER, "
    "overflow_check INTEGER, node_colors TEXT NOT NULL, rank_list TEXT NOT NULL, step_list TEXT NOT NULL"
)
_INDEXES = (
    "step, rank, data_source, up_node, node_order",
    "step, rank, data_source, node_name",
    "step, rank, data_source, node_order",
    "step, rank, node_order",
    "step, rank, micro_step_id, node_order",
    "step, rank, modified, matched_node_link",
    "is_distributed",
)
_PAGE_BYTES = 32768
"""A row has some 2 KiB: four in a page of 4 KiB, with what is left over in pages of its own, take a quarter more space
than so many in one of 16. With 32, 100,000 rows take two thirds of the time that they take with 16; 64 is no faster."""

_CACHE_KIB = 16384
"""Names come in no order, so that pages of their index are asked for again and again. 2 MiB hold those of 10,000,
16 MiB those of 50,000: a build takes as long with 64."""

_NODE_ROW = "INSERT INTO tb_nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CONFIG_ROW = "INSERT INTO tb_config VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class GraphDatabase:
    """A database of graphs that is being written; `graph_database` makes one.

    Args:
        connection: to the new database.
        has_levels: whether overflows are looked for.
    """

    def __init__(self, connection: sqlite3.Connection, *, has_levels: bool) -> None:
        self._connection = connection
        self._has_levels = has_levels
        self._config: tuple[Any, ...] = ()
        self._ranks: dict[int, None] = {}
        self._steps: dict[int, None] = {}
        for name, columns in (("tb_nodes", _NODES), ("tb_stack", _STACKS), ("tb_config", _CONFIG)):
            connection.execute(f"CREATE TABLE {name} ({columns})")

    def add(self, pair: GraphPair) -> None:
        """Add the graphs of one step and rank; unknown ones count as 0."""
        self._config = self._config or self._described(pair)
        run = pair.target.execution
        step, rank = run.step or 0, run.rank or 0
        self._ranks[rank] = self._steps[step] = None
        self._add_graph(pair, step, rank, is_golden=False)
        if pair.golden is not None:
            self._add_graph(pair, step, rank, is_golden=True)

    def _add_graph(self, pair: GraphPair, step: int, rank: int, *, is_golden: bool) -> None:
        graph = pair.golden if is_golden and pair.golden is not None else pair.target
        source = "Bench" if is_golden else "NPU"
        stacks: dict[Sequence[str], str] = {}
        rows = _rows(pair, graph, (source, step, rank), stacks, is_golden=is_golden)
        self._connection.executemany(_NODE_ROW, rows)
        found = ((name, json_string(frames)) for frames, name in stacks.items())
        self._connection.executemany("INSERT INTO tb_stack VALUES (?, ?)", found)

    def _described(self, pair: GraphPair) -> tuple[Any, ...]:
        """Return what the database says about itself, by its first graphs: these are not held until the last."""
        mode = pair.mode
        return (
            "1",
            "build" if pair.golden is None else "compare",
            "" if mode is None else TASKS[mode],
            None if mode is None else json_string(explained(pair)),
            pair.target.micro_steps,
            int(self._has_levels),
            "null" if mode is None else json_string(colours(pair)),
        )

    def finish(self) -> None:
        """Add what the database says about itself, and the indexes."""
        assert self._config, "a database has a graph at least"
        places = json_string(sorted(self._ranks)), json_string(sorted(self._steps))
        self._connection.execute(_CONFIG_ROW, (*self._config, *places))
        for number, columns in enumerate(_INDEXES, 1):
            self._connection.execute(f"CREATE INDEX index{number} ON tb_nodes ({columns})")


def _rows(
    pair: GraphPair,
    graph: ModelGraph,
    where: tuple[str, int, int],
    stacks: dict[Sequence[str], str],
    *,
    is_golden: bool,
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a graph as its nodes end, and name their stacks in the order of first use."""
    source, step, rank = where
    graph_id = f"{source}_{step}_{rank}"
    folder = data_folder(graph)
    ended = graph.ended()
    names = [_storable(node.name) for node in graph.nodes]
    for order, facts in enumerate(node_facts(pair, ended, ItemStyle.VIS_DB, is_golden=is_golden)):
        node, inside = facts.node, graph.children[facts.number]
        name = names[facts.number]
        frames = frames_of(graph, facts.number, is_lean=False)
        stack = stacks.get(frames)
        if stack is None:
            stack = stacks[frames] = f"{graph_id}_{len(stacks)}"
        yield (
            f"{graph_id}_{name}",
            graph_id,
            order,
            name,
            str(CODES[node.kind]),
            names[node.parent] if node.parent >= 0 else "",
            f"[{','.join([json_name(graph.nodes[child].name) for child in inside])}]" if inside else "",
            facts.score,
            facts.level.value if facts.level is not None else None,
            node.micro_step or 0,
            facts.link,
            stack,
            "",
            json_string(facts.distributed) if facts.distributed else "{}",
            0,
            facts.inputs,
            facts.outputs,
            source,
            folder,
            step,
            rank,
            int(node.name.startswith("Distributed")),
        )


def _storable(name: str) -> str:
    r"""Return a name that a database can hold: half of a surrogate pair, which JSON allows, becomes ``\udcNN``."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


@contextmanager
def graph_database(path: Path, *, has_levels: bool = False) -> Iterator[GraphDatabase]:
    """Open a new database that takes the place of `path` when the block ends without an error.

    Args:
        path: the file.
        has_levels: whether overflows were looked for.

    Raises:
        IncompleteError: PF7001 the file cannot be written; then there is none, and nothing beside it.
    """
    with atomic_path(path) as temporary:
        # Nobody reads it before it is renamed, so it needs no journal; an interrupted one is removed.
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            connection.execute("BEGIN")
            database = GraphDatabase(connection, has_levels=has_levels)
            yield database
            database.finish()
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise OSError(0, str(error)) from error
        finally:
            connection.close()
