"""Where a model comes from: ``module:attribute``, a Python file or package, or a file or folder of the framework.

Runs the user's own code, by the user's own request. A Python file and a package may be followed by ``:attribute``, else
their attribute is `DEFAULT_ATTRIBUTE`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from probe_flow.dumpers.base.runner import Runner
from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.files.model_names import DEFAULT_ATTRIBUTE, split_model

_INIT = "__init__.py"


def load_model(text: str, runner: Runner) -> tuple[Any, Path | None]:
    """Return the model and its source; what is no model of the framework is called and must return something callable.

    Raises:
        UsageError: PF6322 when there is no such thing, or it gives no model.
    """
    path, attribute = split_model(text)
    if path is not None and attribute is None and not _is_code(path):
        return _read(text, path, runner), path
    if not runner.takes_code:
        raise _no_model(text, "is Python code", f"{runner.framework} takes {_files(runner)}")
    if path is None:
        found = load_attribute(text, "model")
        source = _source_of(sys.modules.get(text.partition(":")[0]))
    else:
        found = _attribute(_load_file(text, path), attribute or DEFAULT_ATTRIBUTE, f"`model: {text}`", path.name)
        source = path
    return _made(text, found, runner), source


def load_attribute(text: str, option: str) -> Any:
    """Return what ``module:attribute`` names.

    Raises:
        UsageError: PF6322 when the module cannot be imported or lacks the attribute.
    """
    name, _, attribute = text.partition(":")
    where = f"modules are looked for in `{', '.join(sys.path[:1])}` first; `import_from` names another folder"
    module = _imported(lambda: import_module(name), f"`{option}: {text}`: `{name}`", where)
    return _attribute(module, attribute, f"`{option}: {text}`", name)


def _source_of(module: ModuleType | None) -> Path | None:
    source = getattr(module, "__file__", None)
    return Path(source) if source else None


def _is_code(path: Path) -> bool:
    return path.suffix == ".py" or (path / _INIT).is_file()


def _read(text: str, path: Path, runner: Runner) -> Any:
    """Return the model of a file or folder that the framework reads."""
    _check_there(text, path)
    is_folder = path.is_dir()
    if ("/" if is_folder else path.suffix) not in runner.model_files:
        what = f"is a folder without `{_INIT}`" if is_folder else "is no Python file"
        raise _no_model(text, what, f"{runner.framework} takes {_files(runner)}")
    try:
        return runner.read_model(path)
    except UsageError:
        raise
    except Exception as error:  # a framework may raise anything for a file that it cannot read
        why = f"cannot be read: {_in_words(error)}"
        raise _no_model(text, why, f"{runner.framework} reads the file; the traceback stands in the log") from error


def _check_there(text: str, path: Path) -> None:
    if not path.exists():
        near = did_you_mean(path.name, [each.name for each in path.parent.iterdir()]) if path.parent.is_dir() else None
        raise _no_model(text, "does not exist", near or "correct the path")


def _files(runner: Runner) -> str:
    """Return which forms of a model a framework takes."""
    files = [f"a `{ending}` file" for ending in runner.model_files if ending != "/"]
    code = ["`module:attribute`", "a `.py` file", f"a folder with `{_INIT}`"] if runner.takes_code else []
    forms = [*code, *files, *(["a folder of its own"] if "/" in runner.model_files else [])]
    return " or ".join(filter(None, (", ".join(forms[:-1]), forms[-1])))


def _load_file(text: str, path: Path) -> ModuleType:
    """Import a Python file, or a folder as a package; what lies beside it can be imported from it."""
    _check_there(text, path)
    file = path / _INIT if path.is_dir() else path
    if not file.is_file():
        raise _no_model(text, f"is a folder without `{_INIT}`", "name a Python file, or a package")
    sys.path.insert(0, str(path.parent))
    # A name that is taken belongs to another module, which the model itself may need.
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_of_the_model"
    spec = spec_from_file_location(name, file, submodule_search_locations=[str(path)] if path.is_dir() else None)
    assert spec is not None
    assert spec.loader is not None, "a file with this ending has a loader"
    module, loader = module_from_spec(spec), spec.loader
    sys.modules[name] = module
    help_text = "correct the file; the traceback stands in the log"
    _imported(lambda: loader.exec_module(module), f"`model: {text}`: `{path.name}`", help_text)
    return module


def _imported(run: Callable[[], Any], what: str, cure: str) -> Any:
    """Run the code of a module."""
    try:
        return run()
    except Exception as error:  # the user's module may raise anything
        message = f"{what} cannot be imported: {type(error).__name__}: {error}"
        raise UsageError(Diagnostic("PF6322", message, help=cure)) from error


def _attribute(found: Any, attribute: str, what: str, where: str) -> Any:
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = did_you_mean(part, [name for name in dir(found) if not name.startswith("_")])
            raise UsageError(
                Diagnostic("PF6322", f"{what}: `{where}` has no `{part}`", help=near or "correct the name")
            )
        found = getattr(found, part)
    return found


def _made(text: str, found: Any, runner: Runner) -> Any:
    """Return the model that an object of the user's code is, or returns."""
    if runner.is_model(found):
        return found
    cure = f"name {runner.model_word}, or a function without arguments that returns one"
    if not callable(found):
        raise _no_model(text, f"is {_a(found)}, neither a model nor something that returns one", cure)
    try:
        model = found()
    except Exception as error:  # the user's code may raise anything
        raise _no_model(text, f"cannot be called without arguments: {_in_words(error)}", cure) from error
    if not runner.is_model(model) and not callable(model):
        raise _no_model(text, f"returned {_a(model)}, which cannot be called", cure)
    return model


def _no_model(text: str, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6322", f"`model: {text}` {what}", help=cure))


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _a(value: object) -> str:
    return f"of type `{type(value).__name__}`" if value is not None else "`None`"
