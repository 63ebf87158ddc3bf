"""Scripts are made of the modules of a room: each once, in order, without imports of ours, with one of each name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from probe_flow.scripts import bundle
from probe_flow.scripts.bundle import script_text


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bundle, "ROOM", tmp_path)
    (tmp_path / "low.py").write_text('"""Low.\n\nMore."""\n\nfrom __future__ import annotations\n\nONE = 1\n')
    (tmp_path / "mid.py").write_text(
        '"""Mid."""\n\nfrom __future__ import annotations\n\n'
        "from probe_flow.apis.low import (\n    ONE,\n)\n\nTWO = ONE + 1\n"
    )
    (tmp_path / "top.py").write_text(
        '"""Top."""\n\nfrom __future__ import annotations\n\nimport sys\n\nfrom probe_flow.apis.mid import TWO\n\n\n'
        "def main(frozen):\n    from probe_flow.apis.low import ONE\n\n    print(frozen, ONE, TWO)\n    return 0\n"
    )
    return tmp_path


def test_modules_stand_once_in_the_order_of_their_needs(room, capsys):
    text = script_text("top", {"a": "it's '''"}, needs="nothing")
    assert [line for line in text.splitlines() if line.startswith("# ----")] == [
        "# ---- low: Low.", "# ---- mid: Mid.", "# ---- top: Top.",
    ]  # fmt: skip
    assert "import" in text
    assert "probe_flow.apis" not in text
    with pytest.raises(SystemExit, match="0"):
        exec(compile(text, "script", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "{'a': \"it's '''\"} 1 2\n"


def test_two_modules_with_one_name_make_no_script(room):
    (room / "mid.py").write_text('"""Mid."""\n\nfrom probe_flow.apis.low import ONE as _ONE\n\nTWO = 2\nONE = 3\n')
    with pytest.raises(RuntimeError, match="`ONE` is a name in low and in mid"):
        script_text("top", {}, needs="nothing")


def test_the_script_of_op_generate_is_sound_python():
    compile(script_text("scripts.op_script", {}, needs="torch"), "script", "exec")


def test_a_python_without_numpy_is_told_what_it_lacks(room, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(script_text("top", {}, needs="nothing"))
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (
        3,
        "this Python has no module `numpy`: run the script with one that has it\n",
    )
