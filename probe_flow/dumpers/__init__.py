"""Run a model and write a dump. Frameworks are imported when a dump is made, never with this package.

The two lines for a script of your own::

    from probe_flow.dumpers import torchair_fx_backend
    model = torch.compile(model, backend=torchair_fx_backend("dump"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probe_flow.dumpers.mindspore.dump import dump_mindspore
    from probe_flow.dumpers.torch.dump import dump_torch
    from probe_flow.dumpers.torchair.fx import torchair_fx_backend
    from probe_flow.dumpers.torchair.ge import GeDumpOptions, configure_ge_dump

__all__ = ["GeDumpOptions", "configure_ge_dump", "dump_mindspore", "dump_torch", "torchair_fx_backend"]

_HOMES = {
    "GeDumpOptions": "torchair.ge",
    "configure_ge_dump": "torchair.ge",
    "dump_mindspore": "mindspore.dump",
    "dump_torch": "torch.dump",
    "torchair_fx_backend": "torchair.fx",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use: planning a workflow must not load numpy."""
    if name not in _HOMES:
        raise AttributeError(f"module `{__name__}` has no `{name}`")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
