"""Run one training step under TensorFlow's debugger: ``python tf_step.py FOLDER`` leaves its runs there.

The step is that of ``tf_models/step.py``. Rewrites of the graph are off, so that every operator of the user's graph is
dumped under its own name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def main(folder: Path) -> None:
    import tensorflow as tf
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession
    from tf_models.step import model

    v1 = tf.compat.v1
    v1.disable_eager_execution()
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        fetches, feeds = model()
        session.run(v1.global_variables_initializer())
        DumpingDebugWrapperSession(session, str(folder)).run(fetches, feeds)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
