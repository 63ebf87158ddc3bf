"""What the exit codes of our commands say, in one place for all of them."""

from __future__ import annotations

from typing import Final

EXIT_PASSED: Final = 0
EXIT_GATE_FAILED: Final = 1
EXIT_WRONG_INPUT: Final = 2
"""Of the user: in the command, the workflow or a mapping file."""
EXIT_INCOMPLETE: Final = 3
"""Something that was asked for was not done, so that nothing can be said of it."""
EXIT_STOPPED: Final = 128
"""Plus the number of the signal, as shells have it: 130 for Ctrl-C."""
