"""Node keys: identity, also across processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

from msgspec.structs import replace

from probe_flow.records import Execution, NodeKey, Phase

KEY = NodeKey(Execution(0, 1), "MatMul_1", 2, Phase.BACKWARD)
LOOK_UP = (
    "import pickle, sys\n"
    "from probe_flow.records import Execution, NodeKey, Phase\n"
    "key = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
    "own = NodeKey(Execution(0, 1), 'MatMul_1', 2, Phase.BACKWARD)\n"
    "print({own: 'found'}.get(key))\n"
)


def test_equal_keys_are_one_key_of_a_dictionary() -> None:
    assert {KEY: 1}[NodeKey(Execution(0, 1), "MatMul_1", 2, Phase.BACKWARD)] == 1
    assert replace(KEY, call=3) != KEY
    assert replace(replace(KEY, call=3), call=2) == KEY


def test_a_key_is_found_in_a_process_that_hashes_text_in_another_way() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    found = subprocess.run(
        [sys.executable, "-c", LOOK_UP, pickle.dumps(KEY).hex()], env=environment, capture_output=True, text=True
    )

    assert found.stdout.strip() == "found", found.stderr
