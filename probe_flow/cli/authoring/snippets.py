"""Code and commands that make dumps on a machine without probe_flow: of model files, and of what a device runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ONNX = """\
# All tensors of an ONNX model, as `dump.npy` and `dump.onnx` read them. Needs onnx and onnxruntime, not probe_flow.
#   python dump_onnx.py model.onnx dump x=x.npy
import os
import re
import sys
import time

import numpy as np
import onnx
import onnxruntime


def dump(path, folder, inputs):
    model = onnx.load(path, load_external_data=False)
    known = {each.name for each in model.graph.output}
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{number}"
        for name in node.output:
            if name and name not in known:
                known.add(name)
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    # Optimisations change kernels, and so the last bits.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    weights = os.path.dirname(os.path.abspath(path))
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", weights)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    # Tensors that numpy has no type for (bfloat16, sequences) are left out; `dump.onnx` of probe_flow writes them.
    lacking = re.compile(r"tensor\\((?!bfloat|float8|string|u?int4)\\w+\\)")
    plain = [each.name for each in session.get_outputs() if lacking.fullmatch(each.type)]
    values = dict(zip(plain, session.run(plain, inputs)))
    os.makedirs(folder, exist_ok=True)
    now = time.time_ns() // 1000
    for node in model.graph.node:
        for index, name in enumerate(node.output):
            if name in values:
                now += 1
                clean = re.sub(r"[^A-Za-z0-9_-]", "_", node.name)
                np.save(os.path.join(folder, f"{clean}.{index}.{now}.npy"), values[name])


if __name__ == "__main__":
    given = dict(each.split("=", 1) for each in sys.argv[3:])
    dump(sys.argv[1], sys.argv[2], {name: np.load(file) for name, file in given.items()})
"""

CAFFE = """\
# What every layer of a Caffe model gives, as `dump.npy` and `dump.caffe` read it. Needs opencv-python-headless < 5.
#   python dump_caffe.py deploy.prototxt net.caffemodel dump data.npy
# Layers in place (top = bottom) are told apart by OpenCV; of a layer with several tops only the first is written, and
# training layers must not be in the prototxt: `dump.caffe` of probe_flow does without these limits.
import os
import re
import sys
import time

import cv2
import numpy as np


def dump(prototxt, weights, folder, data):
    net = cv2.dnn.readNetFromCaffe(prototxt, weights)
    net.enableFusion(False)  # folded layers give other values
    net.setInput(data)
    names = net.getLayerNames()
    os.makedirs(folder, exist_ok=True)
    now = time.time_ns() // 1000
    for name, blob in zip(names, net.forward(list(names))):
        now += 1
        clean = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        np.save(os.path.join(folder, f"{clean}.0.{now}.npy"), blob)


if __name__ == "__main__":
    dump(*sys.argv[1:4], np.load(sys.argv[4]))
"""

TENSORFLOW = """\
# All tensors of a frozen TensorFlow graph, as `dump.npy` and `dump.tensorflow` read them. Needs tensorflow only.
#   python dump_tensorflow.py frozen.pb dump x=x.npy
import os
import re
import sys
import time

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same kernels on every processor

import numpy as np
import tensorflow.compat.v1 as tf


def dump(path, folder, inputs):
    definition = tf.GraphDef()
    with open(path, "rb") as file:
        definition.ParseFromString(file.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    config = tf.ConfigProto()
    # Without these the graph is rewritten, and operators that the device has are not in the dump.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    held = ("Const", "NoOp", "Placeholder")
    opaque = ("resource", "variant", "string")
    tensors = [
        tensor
        for op in graph.get_operations()
        if op.type not in held
        for tensor in op.outputs
        if tensor.dtype.base_dtype.name not in opaque and graph.is_fetchable(tensor)
    ]
    with tf.Session(graph=graph, config=config) as session:
        values = session.run(tensors, {f"{name}:0": value for name, value in inputs.items()})
    os.makedirs(folder, exist_ok=True)
    now = time.time_ns() // 1000
    for tensor, value in zip(tensors, values):
        now += 1
        clean = re.sub(r"[^A-Za-z0-9_-]", "_", tensor.op.name)
        wide = value.astype(np.float32) if value.dtype.name == "bfloat16" else value
        np.save(os.path.join(folder, f"{clean}.{tensor.value_index}.{now}.npy"), wide)


if __name__ == "__main__":
    given = dict(each.split("=", 1) for each in sys.argv[3:])
    dump(sys.argv[1], sys.argv[2], {name: np.load(file) for name, file in given.items()})
"""

OM = """\
# The dump of an offline model (.om), on the machine that has the device, CANN and ais_bench:
#   bash dump_om.sh net.om /data/dump "a.bin,b.bin"
# then, anywhere, with the original model:
#   probe-flow compare -m offline_model -tp /data/dump/dump_data -gp net.onnx -fr /data/dump/model/net.json -o out
# Inputs are raw little-endian bytes in the order of the model; the same ones are kept in `input/`, where probe_flow
# looks for them.
set -eu
om=$1 out=$2 inputs=$3
name=$(basename "$om" .om)
mkdir -p "$out/dump_data" "$out/model" "$out/input"
atc --mode=1 --om="$om" --json="$out/model/$name.json"  # the fusion rules: which original tensor each one is
number=0
for file in $(echo "$inputs" | tr ',' ' '); do
  cp "$file" "$out/input/input_$number.bin"
  number=$((number + 1))
done
cat > "$out/acl.json" <<JSON
{
  "dump": {
    "dump_list": [{"model_name": "$name"}],
    "dump_path": "$out/dump_data",
    "dump_mode": "all",
    "dump_op_switch": "off"
  }
}
JSON
# Subgraphs of the model ("graph" in the rules) need an entry of their own in dump_list.
python3 -m ais_bench --model "$om" --input "$inputs" --device 0 --output "$out" --warmup_count 0 \\
  --acl_json_path "$out/acl.json"
"""

KERNEL = """\
# Level L2: every kernel that one API runs on the device, inputs and outputs. Needs torch_npu, not probe_flow.
# The files are device files: read them with `dump.om`, or convert them with `probe-flow parse -d kernels -o arrays`.
import json
import os

import torch
import torch_npu  # noqa: F401

folder = os.path.abspath("kernels")
os.makedirs(folder, exist_ok=True)
with open("acl_dump.json", "w") as file:
    # `dump_op_switch`: operators that run one by one, as those of an eager program do.
    json.dump({"dump": {"dump_path": folder, "dump_list": [], "dump_mode": "all", "dump_op_switch": "on"}}, file)

x = torch.randn(4, 8).npu()  # the inputs of the API, e.g. those that an L1 dump recorded

torch_npu.npu.init_dump()
torch_npu.npu.set_dump("acl_dump.json")
torch.nn.functional.softmax(x, dim=-1)  # the API
torch.npu.synchronize()
torch_npu.npu.finalize_dump()
"""

MODEL_SNIPPETS: Mapping[str, str] = MappingProxyType(
    {"onnx": ONNX, "caffe": CAFFE, "tensorflow": TENSORFLOW, "om": OM, "kernel": KERNEL}
)
"""Name -> code."""
