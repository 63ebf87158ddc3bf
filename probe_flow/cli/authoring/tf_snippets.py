"""Code for a TensorFlow training script: what makes the dumps that `workflows/tf_training.yaml` compares.

The names of options are those of the device's TensorFlow plug-in; nothing here was run on a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_GRAPHS = """\
import os

DATA = os.path.abspath("precision_data")
DUMP, GRAPH = os.path.join(DATA, "npu/debug_0/dump"), os.path.join(DATA, "npu/debug_0/graph")
for folder in (DUMP, GRAPH):
    os.makedirs(folder, exist_ok=True)
# The graphs as text, with attributes: without them nobody knows what an operator was made of.
# Set these before TensorFlow is imported.
os.environ.update(DUMP_GE_GRAPH="2", DUMP_GRAPH_LEVEL="3", DUMP_GRAPH_PATH=GRAPH, NPU_DUMP_GRAPH="true")
STEPS = "0"  # "0|5|10": these steps; one step is enough, and the training should end after it
"""

_SESSION_OPTIONS = """
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["enable_dump"].b = True
    custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes(DUMP)
    custom_op.parameter_map["dump_step"].s = tf.compat.as_bytes(STEPS)
    custom_op.parameter_map["dump_mode"].s = tf.compat.as_bytes("all")
"""

_ESTIMATOR = (
    "# The device side under an Estimator.\n"
    + _GRAPHS
    + """
from npu_bridge.npu_init import DumpConfig, NPURunConfig

dump_config = DumpConfig(enable_dump=True, dump_path=DUMP, dump_step=STEPS, dump_mode="all")
run_config = NPURunConfig(dump_config=dump_config)
# estimator = NPUEstimator(model_fn=model_fn, config=run_config)
# estimator.train(input_fn=input_fn, steps=1)
"""
)

_SESSION = (
    "# The device side under `session.run`.\n"
    + _GRAPHS
    + '''
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig


def dumping(config):
    """Add the device's optimiser, which dumps, to a `ConfigProto`."""
    custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
'''
    + _SESSION_OPTIONS.lstrip("\n")
    + """\
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    return config


# with tf.compat.v1.Session(config=dumping(tf.compat.v1.ConfigProto())) as session:
#     session.run([loss, train], feeds)
"""
)

_CUSTOM_OP = (
    "# The device side where the script has a `custom_op` already (automatic porting): add the dump to it.\n"
    + _GRAPHS
    + '''
import tensorflow as tf


def dumping(custom_op):
    """Make the `custom_op` named `NpuOptimizer` dump; its other parameters stay."""
'''
    + _SESSION_OPTIONS.lstrip("\n")
    + """\
    return custom_op


# custom_op = session_config.graph_options.rewrite_options.custom_optimizers.add()
# custom_op.name = "NpuOptimizer"
# custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
# custom_op = dumping(custom_op)
"""
)

_KERAS = (
    _SESSION.replace(
        "# The device side under `session.run`.\n", "# The device side under tf.keras of TensorFlow 1.\n"
    ).partition("# with tf.compat")[0]
    + """\
# from npu_bridge.npu_init import set_keras_session_npu_config
# session = set_keras_session_npu_config(config=dumping(tf.compat.v1.ConfigProto()))
# model.fit(x, y, batch_size=len(x), epochs=1, steps_per_epoch=1, shuffle=False)
"""
)

_TF2 = (
    "# The device side under TensorFlow 2.\n"
    + _GRAPHS
    + """
import npu_device

options = npu_device.global_options()
options.dump_config.enable_dump = "1"
options.dump_config.dump_path = DUMP
options.dump_config.dump_step = STEPS
options.dump_config.dump_mode = "all"
npu_device.open().as_default()
"""
)

_TFDBG = '''\
# The golden side: one step on CPU or GPU under TensorFlow's own debugger.
import tensorflow as tf
from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

FOLDER = "precision_data/tf/tf_debug"  # new or empty


def plain(config=None):
    """Switch rewrites of the graph off: they fuse, fold and rename operators before any is dumped."""
    config = config or tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def dumped(session, folder=FOLDER):
    """Wrap a session; initialise and restore the checkpoint before."""
    return DumpingDebugWrapperSession(session, folder)


# with tf.compat.v1.Session(config=plain()) as session:
#     saver.restore(session, checkpoint)      # the same on both sides
#     dumped(session).run([loss, train], feeds)  # the same batch; then end the training
#
# Under MonitoredSession, or an Estimator of older versions, add the hook instead:
# from tensorflow.python.debug.wrappers.hooks import DumpingDebugHook
# hooks = [DumpingDebugHook(FOLDER)]
'''

_TRAINING = '''\
# The golden side as a function, which `dump.tensorflow_training` runs on the CPU under TensorFlow's debugger:
#   probe-flow run tf_training_oneclick.yaml --set data=precision_data --set model=train.py:step
import numpy as np
import tensorflow.compat.v1 as tf

# tf.disable_v2_behavior()  # where the script ran on TensorFlow 1: variables and loops have the same names then


def step():
    """Build the graph of one step: return what it is asked for, and what it is fed."""
    x = tf.placeholder(tf.float32, [8, 20], name="input/x")
    w = tf.get_variable("dense/kernel", [20, 5])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w, name="dense/MatMul")), name="loss")
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    # The training operator has to be among them; the batch is that of the device.
    return [loss, train], {x: np.ones((8, 20), "f4")}


# A Keras model: return a compiled one, and give the batch with `inputs: {files: [x.npy, y.npy]}`.
'''

_FUSION_OFF = """\
# A second run of the same step with fusion off, into precision_data/npu/debug_1:
#   probe-flow run tf_training_two_runs.yaml --set data=precision_data
import json

SWITCHES = {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}
# One pass alone, which the comparison names: {"Switch": {"GraphFusion": {"NAME": "off"}}}
with open("fusion_off.cfg", "w") as file:
    json.dump(SWITCHES, file)

# Estimator:  NPURunConfig(fusion_switch_file="fusion_off.cfg", dump_config=...)
# session:    custom_op.parameter_map["fusion_switch_file"].s = tf.compat.as_bytes("fusion_off.cfg")
# TF 2:       npu_device.global_options().fusion_switch_file = "fusion_off.cfg"
# Dump as before, with npu/debug_1 in place of npu/debug_0.
"""

_OVERFLOW = """\
# Overflow detection, before anything is compared; without the dump of the comparison, of which it excludes the switch.
# Then: probe-flow run a workflow with `{uses: analysis.op_debug, path: precision_data/overflow/dump}`
import os

FOLDER = os.path.abspath("precision_data/overflow/dump")
os.makedirs(FOLDER, exist_ok=True)

# Estimator:  NPURunConfig(dump_config=DumpConfig(enable_dump_debug=True, dump_path=FOLDER, dump_mode="all"))
# session:    custom_op.parameter_map["enable_dump_debug"].b = True
#             custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes(FOLDER)
#             custom_op.parameter_map["dump_debug_mode"].s = tf.compat.as_bytes("all")
# TF 2:       options = npu_device.global_options()
#             options.dump_config.enable_dump_debug = "1"
#             options.dump_config.dump_path = FOLDER
#             options.dump_config.dump_debug_mode = "all"
"""

TF_SNIPPETS: Mapping[str, str] = MappingProxyType(
    {
        "tf_estimator": _ESTIMATOR,
        "tf_session": _SESSION,
        "tf_custom_op": _CUSTOM_OP,
        "tf_keras": _KERAS,
        "tf2": _TF2,
        "tfdbg": _TFDBG,
        "tf_training": _TRAINING,
        "tf_fusion_off": _FUSION_OFF,
        "tf_overflow": _OVERFLOW,
    }
)
"""Name -> code."""
