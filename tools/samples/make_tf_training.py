"""Make the samples of a TensorFlow training step: ``python make_tf_training.py OUTPUT``; needs tensorflow.

``step`` has the layout of `precision_data`: the golden side (``tf/tf_debug``) is real, written by TensorFlow's
debugger; the device side (``npu``) is emulated (see `tf_device`): ``debug_0`` with a fault in one operator, ``debug_1``
the same run without fusion. ``healthy`` is the same without a fault, its golden side extracted as arrays. ``models``
has the step itself, for `dump.tensorflow_training`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import tf_device
from tf_device import Array

from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.elements.blocks import array_of
from probe_flow.transform.convert.extract import extract


def lost_rows(values: Array) -> Array:
    """The last rows of the product were computed from the wrong block."""
    wrong = np.array(values)
    wrong[-2:] = wrong[:2]
    return wrong


FAULT = {tf_device.TANH_GRAD: lost_rows}


def feeds(runs: Path) -> dict[str, Array]:
    """Return what was fed, and the weights before the step."""
    catalog = read_tfdbg(runs, side="golden")
    found = {ref.node.name: ref for ref in catalog.tensors}
    return {name: array_of(found[name]).reshape(found[name].shape) for name in tf_device.FEEDS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    runs = output / "step" / "tf" / "tf_debug"
    runs.parent.mkdir(parents=True)
    subprocess.run([sys.executable, str(Path(__file__).with_name("tf_step.py")), str(runs)], check=True)
    extract(runs, output / "healthy" / "tf" / "dump")
    models = output / "models"
    models.mkdir()
    shutil.copy(Path(__file__).parent / "tf_models" / "step.py", models)
    for name, tamper in (("step", FAULT), ("healthy", {})):
        tf_device.write_npu(output / name / "npu" / "debug_0", feeds(runs), tamper)
        if tamper:
            tf_device.write_npu(output / name / "npu" / "debug_1", feeds(runs), is_fused=False)


if __name__ == "__main__":
    main()
