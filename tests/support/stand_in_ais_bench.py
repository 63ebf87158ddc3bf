"""Stand in for ais_bench in tests: runs no model, writes the device files that `acl.json` asks for.

Takes the options of the real tool (those that its user's guide describes), and refuses others as it does. The operator
`scale` doubles the first input, read as float32; what the device would hold in a private layout is ND here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np

SUPPORT = Path(__file__).resolve().parent
sys.path[:0] = [str(SUPPORT), str(SUPPORT.parents[1] / "tools" / "samples")]


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--model", "--input", "--device", "--output", "--warmup_count", "--acl_json_path"):
        parser.add_argument(name, required=name in ("--model",))
    for name in ("--dymBatch", "--dymHW", "--dymDims", "--dymShape", "--outputSize"):
        parser.add_argument(name)
    given = parser.parse_args()
    sys.stdout.write(f"[INFO] acl init success, device {given.device}\n")
    if os.environ.get("STAND_IN_FAILS"):
        sys.stderr.write("[ERROR] load model failed\n")
        return int(os.environ["STAND_IN_FAILS"])
    asked = json.loads(Path(given.acl_json_path).read_text())["dump"]
    model = Path(given.model).stem
    if os.environ.get("STAND_IN_IS_SILENT") or {"model_name": model} not in asked["dump_list"]:
        return 0
    from om_writer import OmFolder, om_tree

    x = np.fromfile(given.input.split(",")[0], "<f4")
    folder = OmFolder(om_tree(Path(asked["dump_path"]), device=int(given.device), model=model, step=0))
    folder.op("Mul", "scale", at=1, inputs=[x], outputs=[2 * x])
    result = Path(given.output) / "2026_01_01-00_00_00"
    result.mkdir(parents=True)
    (2 * x).tofile(result / "pure_infer_data_0.bin")
    (result.parent / "arguments.json").write_text(json.dumps(vars(given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
