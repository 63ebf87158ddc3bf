"""What the machine is asked for: memory that the library of C holds and nobody uses."""

from __future__ import annotations

from probe_flow.files import machine


def test_free_memory_is_returned_without_a_word(capfd):
    machine.return_free_memory()
    assert capfd.readouterr() == ("", "")


def test_another_library_of_c_keeps_its_memory(monkeypatch):
    def lacking():
        raise AttributeError("undefined symbol: malloc_trim")

    monkeypatch.setattr(machine, "_heap_trimmer", lacking)
    machine.return_free_memory()
