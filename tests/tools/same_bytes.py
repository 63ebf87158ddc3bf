"""Whether two versions of probe_flow write the same bytes: ``python tests/tools/same_bytes.py OLD [NEW]``.

OLD and NEW are git revisions of this checkout; without NEW its working tree is compared. Each version is built as a
wheel and installed into an environment of its own, so that nothing of the checkout is imported. Both run every packaged
workflow on its sample and every pair of ``tests/data``, in the same folders, with ``PYTHONHASHSEED`` 0 and 1 and the
schedulers ``sync`` and ``processes``. Equal must be: exit code, standard output (timings aside), every result file byte
by byte, and ``run.json`` without times, versions and paths. Then NEW runs the pairs on the cache that OLD left, and
must measure nothing.

What is meant to differ stands in ``EXPECTED``, `frames_of_all` and `of_any_version`, and is left out on both sides.

It takes some minutes and is run by hand before and after code is moved; ``--quick`` takes one hash seed and scheduler.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = Path("tests/data")
TIMEOUT_S = 600

_TIMES = re.compile(r"(done|failed|skipped)( in) \d+\.\d+ s")
_STAMPS = re.compile(r"_(\d{14}|\d{19})(?=[._])|\bversion\d/(?=env/)")
"""Times in names of files, and where a version is installed."""

_VOLATILE = frozenset(
    {"wall_s", "started", "versions", "run_id", "timings", "pid", "fingerprint", "cache", "folder", "path", "executor"}
)
_OF_THE_RUN = ("events.jsonl", "report.html")  # times; the versions of libraries
EXPECTED: tuple[tuple[str, str, str], ...] = (
    # The name of a node's entry in its dump, next to `node`, and in texts for people where it is another.
    (r".*\.jsonl", r'("node": "(?:[^"\\]|\\.)*"), "name": "(?:[^"\\]|\\.)*"', r"\1"),
    (r".*\.xml", r"<system-out>in the dump: [^\n<]*</system-out>\n|\nin the dump: [^\n<]*(?=<)", ""),
    (r".*\.xml", r"in the dump: [^\n<]*\n", ""),
    (r".*\.md", r"\| in the dump \|.*\n|, in the dump `+[^`]*`+", ""),
    # It also makes columns wider: a word a line. The table of errors, in narrower columns, is left out.
    (r"stdout", r"Largest errors, .*\n(?:  .*\n)*", ""),
    (r"stdout", r" --node .*", ""),
    # comparison.msgpack, which every run leaves now, may take the place of the last file that is listed.
    (r"stdout", r"\nFiles.*\n(?:  .*\n)*", "\n"),
    (r"stdout", r"\s+", "\n"),
    (r"stdout", r",\nin\nthe\ndump\n(?:\S+\n)*?\S+:(?=\n)", ":"),
    (r"stdout", r"in\nthe\ndump\n(?:\S+\n)+?(?=tensor\n)", ""),
)
"""Parts, a pattern in them, and what takes its place before two versions are compared."""

_SHOWN = ("stdout", ".xml", ".md", "run.json")
"""Parts of which the first lines that differ are printed."""

_DIGESTED = (".csv", ".jsonl", ".xml", ".md", ".txt", ".json", ".npy", ".html")


@dataclass(frozen=True)
class Case:
    """One command: its name, and its arguments without the folder of its results."""

    name: str
    arguments: tuple[str, ...]
    output: str = "-o"


@dataclass(frozen=True)
class Version:
    """An installed version: its name, and its environment, which runs under one path for all versions."""

    name: str
    env: Path

    def run(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        link = self.env.parents[1] / "env"
        link.unlink(missing_ok=True)
        link.symlink_to(self.env)
        command = [str(link / "bin" / "python"), "-m", "probe_flow", *arguments]
        return subprocess.run(
            command, cwd=cwd, env=dict(env), capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )


def install(revision: str | None, folder: Path) -> Version:
    """Build the wheel of a revision (None: of the working tree) and install it with the tested versions."""
    source = folder / "source"
    source.mkdir(parents=True)
    if revision is None:
        kept = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        )
        for name in filter(None, kept.stdout.decode().split("\n")):
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, source / name)
    else:
        packed = folder / "source.tar"
        subprocess.run(["git", "archive", "-o", str(packed), revision], cwd=ROOT, check=True)
        with tarfile.open(packed) as archive:
            archive.extractall(source, filter="data")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    pip = [str(folder / "env" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    extras = f"{source}[xlsx]"
    subprocess.run([*pip, "-c", str(source / "constraints.txt"), extras], check=True)
    shutil.rmtree(source)
    return Version(revision or "the working tree", folder / "env")


def unpack(data: Path) -> None:
    """Lay out the archives of tests/data, those of the working tree for both versions."""
    for archive in sorted((ROOT / DATA).rglob("*.tar.xz")):
        target = data / archive.parent.name / archive.name.partition(".")[0]
        target.mkdir(parents=True)
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
    for folder in sorted((ROOT / DATA / "dump_json").iterdir()):
        if folder.is_dir():
            shutil.copytree(folder, data / "dump_json" / folder.name, dirs_exist_ok=True)
    for path in data.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def workflows(version: Version, cwd: Path, env: Mapping[str, str]) -> list[Case]:
    listed = json.loads(version.run(["templates", "--format", "json"], cwd, env).stdout)
    return [Case(f"workflow {each['name']}", ("run", each["path"]), "--output") for each in listed]


def pairs(data: Path) -> Iterator[Case]:
    """Yield the comparisons of all pairs of tests/data."""

    def compare(name: str, target: str, golden: str, *more: str) -> Case:
        return Case(name, ("compare", "-tp", str(data / target), "-gp", str(data / golden), *more))

    torchair = "torchair/{0}/{0}/msprobe_{1}_dump"
    for name in ("healthy", "minmax", "new_layout"):
        sides = (torchair.format(name, "ge"), torchair.format(name, "fx"))
        yield compare(f"torchair {name}", *sides, "-m", "torchair")
    old = "torchair/ge_fx_old/ge_fx_old"
    yield compare("torchair old layout", f"{old}/msprobe_ge_dump", f"{old}/data_dump", "-m", "torchair")
    fusion = "torchair/fusion_pair/fusion_pair/fusion_{}/msprobe_ge_dump"
    yield compare("torchair fusion", fusion.format("on"), fusion.format("off"), "-m", "torchair")
    offline = data / "offline" / "cases"
    for name in ("fr", "cfr", "qfr", "sliced", "om_vs_om"):
        folder = offline / name
        flags = {"-fr": "fusion_rule.json", "-cfr": "close_fusion_rule.json", "-qfr": "quant_fusion_rule.json"}
        rules = [
            word for flag, file in flags.items() if (folder / file).exists() for word in (flag, str(folder / file))
        ]
        targets = [side for side in ("target", "target_om") if (folder / side).exists()]
        goldens = [side for side in ("golden", "golden_origin") if (folder / side).exists()]
        yield compare(
            f"offline {name}", str(folder / targets[0]), str(folder / goldens[0]), *rules, "-m", "offline_data"
        )
    for name in ("caffe", "tensorflow"):
        folder = data / "offline" / "samples" / name
        rules = ["-fr", str(folder / "fusion_rule.json")]
        sides = str(folder / "target"), str(folder / "golden")
        yield compare(f"offline {name}", *sides, *rules, "-overflow_detection", "--xlsx")
    maps = data / "dump_json" / "mappings"
    twins = ("dump_json/ms_tensor_base", "dump_json/twin_tensor")
    for name, *options in (
        ("default layers", "-lm"),
        ("layers", "-lm", str(maps / "layer_map.yaml")),
        ("cells", "-cm", str(maps / "cell_map_ms.yaml")),
        ("apis", "-am"),
        ("data", "-dm", str(maps / "data_mapping.yaml")),
    ):
        yield compare(f"twins by {name}", *twins, *options)
    yield compare("statistics", "dump_json/pt_stat_bug", "dump_json/pt_stat_base", "-da")
    yield compare("renamed", "dump_json/pt_stat_rename", "dump_json/pt_stat_base", "-fm")
    yield compare(
        "renamed cells", "dump_json/pt_stat_rename", "dump_json/pt_stat_base", "-cm", str(maps / "cell_map_pt.yaml")
    )
    yield compare("modules", "dump_json/pt_tensorL0_bug", "dump_json/pt_tensorL0_base")
    yield compare("tensors", "dump_json/ms_tensor_pair/target", "dump_json/ms_tensor_pair/golden")
    yield compare("checksums", *(f"dump_json/peer_results/peer_results/pt_md5_{side}" for side in ("bug", "base")))
    for archive in ("faults", "levels"):
        folder = data / "dump_json" / archive
        for case in json.loads((folder / "cases.json").read_text(encoding="utf-8")):
            name = case["spec"]["name"]
            yield compare(f"{archive} {name}", str(folder / case["target"]), str(folder / case["golden"]))
    for name in ("scaled", "epsilon", "rounded"):
        workflow = data / f"{name}.yaml"
        workflow.write_text(
            f"version: 1\nname: {name}\nstages:\n"
            + "".join(
                f"  {stage}: {{uses: dump.mindspore_graph, path: {data / 'mindspore_graph' / side}}}\n"
                for stage, side in (("target", name), ("golden", "base"))
            )
            + "  pairs: {uses: match.name, target: target, golden: golden}\n"
            "  result: {uses: compare, pairs: pairs, policy: dump_json}\n"
            "  report: {uses: report, comparison: result, formats: [{csv: dump_json}, html, junit]}\n"
        )
        yield Case(f"kernel dumps {name}", ("run", str(workflow)), "--output")


def frames_of_all(text: str) -> str:
    """Return nodes.jsonl with the frames of each node; of version 2, where other nodes have the number of a line."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if isinstance(line["stack"], int):
            line["stack"] = lines[line["stack"] - 1]["stack"]
    return "\n".join(map(json.dumps, lines))


def of_any_version(record: dict[str, Any]) -> dict[str, Any]:
    """Return run.json without what version 2 says in another way: names of entries, copies of findings, its files."""
    found = record.get("findings") or []
    for part in (record, *(record.get("comparisons") or {}).values()):
        for key in ("first_divergence", "nonfinite_origin"):
            at = part.get(key)
            finding = found[at] if isinstance(at, int) else at
            part[key] = finding and {name: finding.get(name) for name in _PLACE}
        part.pop("suspects", None)
        part.pop("finding_counts", None)
    for finding in found:
        finding.pop("name", None)
    record.pop("schema", None)
    record["artifacts"] = [name for name in record.get("artifacts", ()) if not name.endswith(".msgpack")]
    return record


_PLACE = ("node", "rank", "graph", "step", "call", "phase", "direction", "index", "evidence")


def without_expected(part: str, text: str) -> str:
    """Return the text of a part without what is meant to differ."""
    for name, pattern, instead in EXPECTED:
        if re.fullmatch(name, part):
            text = re.sub(pattern, instead, text)
    return text


def plain(node: Any) -> Any:
    """Return run.json without what differs from run to run."""
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items() if key not in _VOLATILE}
    if isinstance(node, list):
        return [plain(value) for value in node]
    return _STAMPS.sub("", node) if isinstance(node, str) else node


def outcome(done: subprocess.CompletedProcess[str], output: Path) -> dict[str, str]:
    """Return what a command left: exit code, standard output and a digest of each file, by name."""
    text = _STAMPS.sub("", _TIMES.sub(r"\1", done.stdout))
    found = {"exit code": str(done.returncode), "stdout": without_expected("stdout", text)}
    for path in sorted(output.rglob("*")):
        if not path.is_file() or path.suffix not in _DIGESTED or path.name in _OF_THE_RUN:
            continue
        content = path.read_bytes()
        if path.name == "run.json":
            content = json.dumps(plain(of_any_version(json.loads(content))), sort_keys=True, indent=1).encode()
        if path.name == "nodes.jsonl":
            content = frames_of_all(content.decode()).encode()
        if path.suffix == ".xml":
            content = re.sub(rb'timestamp="[^"]*"|<property name="version[^>]*>', b"", content)
        name = _STAMPS.sub("", path.relative_to(output).as_posix())
        text = without_expected(path.name, _STAMPS.sub("", content.decode("utf-8", "replace")))
        found[name] = text if name.endswith(_SHOWN) else hashlib.sha256(text.encode()).hexdigest()
    return found


def run_all(version: Version, cases: Sequence[Case], folder: Path, env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Run each case into the same folder as every version, and return what it left."""
    left = {}
    for number, case in enumerate(cases):
        output = folder / "out"
        shutil.rmtree(output, ignore_errors=True)
        done = version.run([*case.arguments, case.output, str(output)], folder, env)
        left[case.name] = outcome(done, output)
        if sys.stderr.isatty():
            print(f"\r{version.name}: {number + 1} of {len(cases)}", end="", file=sys.stderr, flush=True)
    return left


def differences(old: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for name, before in old.items():
        after = new[name]
        for part in sorted({*before, *after}):
            if before.get(part) != after.get(part):
                is_shown = part.endswith((*_SHOWN, "exit code"))
                yield f"{name}: {part}{': ' + changed(before, after, part) if is_shown else ''}"


def changed(before: Mapping[str, str], after: Mapping[str, str], part: str) -> str:
    """Return the first lines that differ."""
    texts = [each.get(part, "").splitlines() for each in (before, after)]
    lines = [line for line in difflib.ndiff(*texts) if line[0] in "+-"]
    return " | ".join(lines[:4])


def measured_anew(version: Version, cases: Sequence[Case], folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the cases that a version measures in part although the cache holds all of them."""
    for case in cases:
        output = folder / "out"
        shutil.rmtree(output, ignore_errors=True)
        version.run([*case.arguments, case.output, str(output)], folder, env)
        for record in output.rglob("run.json"):
            cache = json.loads(record.read_text(encoding="utf-8")).get("cache") or {}
            if cache.get("misses"):
                yield f"{case.name}: {cache['misses']} results measured again, {cache.get('hits', 0)} taken"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new", nargs="?")
    parser.add_argument("--quick", action="store_true", help="one hash seed and one scheduler")
    parser.add_argument("--faults", action="store_true", help="also the archived faults with every seed and scheduler")
    options = parser.parse_args()
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="same-bytes-") as name:
        folder = Path(name)
        versions = [install(each, folder / f"version{n}") for n, each in enumerate((options.old, options.new))]
        data = folder / "data"
        unpack(data)
        base = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHASHSEED")}
        settings = [(seed, scheduler) for seed in ("0", "1") for scheduler in ("sync", "processes")]
        caches = [folder / f"cache{n}" for n in range(2)]
        for place, (seed, scheduler) in enumerate(settings[:1] if options.quick else settings):
            left = []
            for version, cache in zip(versions, caches, strict=True):
                env = {**base, "PYTHONHASHSEED": seed, "PROBE_FLOW_CACHE": str(cache / str(place))}
                cases = [*workflows(version, folder, env), *pairs(data)]
                if place and not options.faults:
                    cases = [case for case in cases if not case.name.startswith(("faults ", "levels "))]
                cases = [Case(c.name, (*c.arguments, "--scheduler", scheduler), c.output) for c in cases]
                left.append(run_all(version, cases, folder, env))
            now = [f"seed {seed}, {scheduler}: {each}" for each in differences(*left)]
            count = sum(map(len, left[0].values()))
            print(
                f"seed {seed}, {scheduler}: {len(left[0])} commands, {count} results compared",
                *now,
                sep="\n",
                flush=True,
            )
            found += now
        # The samples of the packaged workflows are files of each installation, so other files to a cache.
        env = {**base, "PYTHONHASHSEED": "0", "PROBE_FLOW_CACHE": str(caches[0] / "0")}
        now = list(measured_anew(versions[1], list(pairs(data)), folder, env))
    found += now
    print(*now, f"{len(found)} differences" if found else "no difference", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
