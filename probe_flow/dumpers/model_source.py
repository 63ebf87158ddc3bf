"""Import a model or its inputs by ``module:attribute``. Runs the user's own code, by the user's own request."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from probe_flow.errors import Diagnostic, UsageError, did_you_mean

MODULE_ATTRIBUTE = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
"""Pattern of ``module:attribute``."""


def load_attribute(text: str, option: str) -> Any:
    """Return what ``module:attribute`` names.

    Raises:
        UsageError: PF6322 when the module cannot be imported or lacks the attribute.
    """
    module_name, _, attribute = text.partition(":")
    try:
        found: Any = import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        where = ", ".join(sys.path[:1])
        raise UsageError(
            Diagnostic(
                "PF6322",
                f"`{option}: {text}`: `{module_name}` cannot be imported: {type(error).__name__}: {error}",
                help=f"modules are looked for in `{where}` first; `import_from` names another folder",
            )
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = did_you_mean(part, [name for name in dir(found) if not name.startswith("_")])
            raise UsageError(
                Diagnostic(
                    "PF6322", f"`{option}: {text}`: `{module_name}` has no `{part}`", help=near or "correct the name"
                )
            )
        found = getattr(found, part)
    return found


def load_model(text: str) -> tuple[Any, Path | None]:
    """Return the model and its source file; what is no module of torch is called and must return something callable.

    Raises:
        UsageError: PF6322 when there is no such thing, or it gives no model.
    """
    import torch

    found = load_attribute(text, "model")
    source = getattr(sys.modules.get(text.partition(":")[0]), "__file__", None)
    model = found
    if not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise _no_model(text, f"is {_a(found)}, neither a model nor something that returns one")
        try:
            model = found()
        except Exception as error:  # the user's code may raise anything
            raise _no_model(text, f"cannot be called without arguments: {type(error).__name__}: {error}") from error
        if not callable(model):
            raise _no_model(text, f"returned {_a(model)}, which cannot be called")
    return model, Path(source) if source else None


def _no_model(text: str, what: str) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6322",
            f"`model: {text}` {what}",
            help="name a `torch.nn.Module`, or a function without arguments that returns one",
        )
    )


def _a(value: object) -> str:
    return f"of type `{type(value).__name__}`" if value is not None else "`None`"
