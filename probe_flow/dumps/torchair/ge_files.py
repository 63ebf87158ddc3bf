"""Sort the files of a TorchAir device dump: graph texts, dump files by folder, and what is neither."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct, field

from probe_flow.dumps.device_folders.layout import (
    MAPPING_FILE,
    GeFile,
    GeFolder,
    ge_folder,
    hashed_without_mapping,
    name_mappings,
    not_a_dump_file,
)
from probe_flow.dumps.file_names import GeFileName, is_hashed, parse_fx_name, parse_ge_name, real_name, stem_of
from probe_flow.dumps.torchair.graph_files import GraphFileName, graph_file_name, source_file_name
from probe_flow.files.walk import DumpFile, DumpListing
from probe_flow.records import Problem

_KNOWN = re.compile(r"dynamo_.*|dump_options_.*\.json|convert_failed_file_list\.txt")
_EXTRA = "extra-info"
"""Folder of what CANN keeps of operators that ended in an error, in ``data-dump/DEVICE``: no execution."""

_SKIPPED_SUFFIXES = (".json", ".txt", ".swp", ".py", ".pt", ".log", ".npz", ".npy", ".csv")


class GeFiles(Struct):
    """The files of one device dump, by folder; ``odd`` counts files by what they seem to be, for messages."""

    graphs: list[tuple[DumpFile, GraphFileName]] = field(default_factory=list)
    sources: list[tuple[DumpFile, GraphFileName]] = field(default_factory=list)
    folders: dict[tuple[str, ...], list[GeFile]] = field(default_factory=lambda: defaultdict(list))
    identities: dict[tuple[str, ...], GeFolder] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    odd: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def sort_ge_files(listing: DumpListing) -> GeFiles:
    """Return the files of a listing by their role; everything that is no dump file becomes a problem."""
    sorted_files = GeFiles(problems=list(listing.problems))
    mappings = name_mappings(listing.files, sorted_files.problems)
    for file in listing.files:
        graph = graph_file_name(file.name)
        if graph is not None:
            sorted_files.graphs.append((file, graph))
            continue
        source = source_file_name(file.name)
        if source is not None:
            sorted_files.sources.append((file, source))
            continue
        if file.name == MAPPING_FILE or _KNOWN.fullmatch(file.name):
            continue
        taken = _take(file, mappings.get(file.folders, {}), sorted_files)
        if taken is not None:
            sorted_files.folders[file.folders].append(taken)
            if file.folders not in sorted_files.identities:
                sorted_files.identities[file.folders] = ge_folder(file.folders)
    return sorted_files


def _take(file: DumpFile, mapping: Mapping[str, str], files: GeFiles) -> GeFile | None:
    name, form = file.name, "raw"
    reduced = stem_of(name) if name.endswith(".npz") else None
    if reduced is not None:
        name, form = reduced, "reduced"
    elif name.endswith(".csv"):
        name, form = name.removesuffix(".csv"), "statistics"
    if is_hashed(name):
        found = real_name(name, mapping)
        if found is None:
            files.odd["hashed name"] += 1
            files.problems.append(_unresolved(file))
            return None
        name = found
    parsed = None if name.startswith(".") or name.endswith(_SKIPPED_SUFFIXES) else parse_ge_name(name)
    if parsed is None or parsed.op_type == "Opdebug" or _EXTRA in file.folders:
        what = _what(file, parsed)
        files.odd[what] += 1
        files.problems.append(not_a_dump_file(file, what))
        return None
    return GeFile(file, parsed, form)


def _what(file: DumpFile, parsed: GeFileName | None) -> str:
    if _EXTRA in file.folders:
        return "dump of an operator that ended in an error"
    if parsed is not None:
        return "overflow record"
    if file.name.startswith("."):
        return "hidden file"
    if file.name.endswith(".npy"):
        return "FX array" if parse_fx_name(file.name) else "array of another program"
    return "file of another kind"


def _unresolved(file: DumpFile) -> Problem:
    return hashed_without_mapping(file, f"`{MAPPING_FILE}` beside it does not name it")
