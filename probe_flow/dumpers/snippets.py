"""Code that users copy into their own scripts: what `probe-flow init --snippet NAME` prints."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TORCHAIR = '''\
# Two dumps of one model, to be compared by:
#   probe-flow run torchair_ge_vs_fx.yaml --set target=dumps/msprobe_ge_dump --set golden=dumps/msprobe_fx_dump
# Run the script once for each dump, each time in a new process and into an empty folder, with the same inputs,
# weights and seed.
import os

import torch


def ge_backend(folder="dumps/msprobe_ge_dump"):
    """The target: what the device computes. Needs torch_npu and torchair, not probe_flow."""
    import torch_npu  # noqa: F401
    import torchair

    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    config = torchair.CompilerConfig()
    # Without the graph texts nobody knows which tensor of the graph a device tensor is.
    config.debug.graph_dump.type = "txt"
    for name in ("path", "_path"):  # versions differ, and config objects reject names that they do not know
        if hasattr(config.debug.graph_dump, name):
            setattr(config.debug.graph_dump, name, folder)
            break
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = folder
    config.dump_config.dump_mode = "all"
    # Narrower: config.dump_config.dump_step = "0|1"     (these steps only)
    #           config.dump_config.dump_layer = "Add_1"  (these operators only, where hasattr says that it is known)
    # Without fusion, as a golden side: write {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}
    # to a file, and set config.fusion_config.fusion_switch_file to its path.
    return torchair.get_npu_backend(compiler_config=config)


def fx_backend(folder="dumps/msprobe_fx_dump"):
    """The golden side: the same graph, node by node, on the CPU or any device of torch. Needs probe_flow."""
    from probe_flow.dumpers import torchair_fx_backend

    return torchair_fx_backend(folder)


# model = torch.compile(model, backend=ge_backend())   # on the device
# model = torch.compile(model, backend=fx_backend())   # anywhere
# with torch.no_grad():
#     model(*inputs)
'''

SNIPPETS: Mapping[str, str] = MappingProxyType({"torchair": TORCHAIR})
"""Name -> code."""
