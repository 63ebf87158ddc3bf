"""PyTorch in a process of its own: the benchmark where the process of the tested side has another `torch`, MSAdapter's.

What stands for a tensor on this side are its elements, for an element type its name. They become the framework's own
there, where the call is made, and results come back as elements.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from multiprocessing.connection import Connection
from pathlib import Path as Folder
from typing import Any

from msgspec import Struct

from probe_flow.apis.calls import Path, UnusableError
from probe_flow.apis.side import Held, Side, replaced, tensors_of

PACKAGE = "torch"

_START = (
    "import sys; sys.path[:] = sys.argv[2:]; from probe_flow.precheck.far_torch import serve; serve(int(sys.argv[1]))"
)


class _Dtype(Struct, frozen=True):
    """An element type that is an argument."""

    name: str


class _Device(Struct, frozen=True):
    """The device that is an argument."""


class _Function(Struct, frozen=True):
    """An API that the other process has."""

    kind: str
    api: str


class FarTorch:
    """APIs of the PyTorch that is no MSAdapter, in a process that begins with the first call.

    Args:
        path: search path; folders whose `torch` is MSAdapter are left out of it one by one.
    """

    device = _Device()
    name = "torch"

    def __init__(self, path: Sequence[str]) -> None:
        self._path = list(path)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def find(self, kind: str, api: str) -> tuple[Any, str]:
        """Return what stands for an API, and its full name."""
        return _Function(kind, api), str(self._ask("find", kind, api))

    def tensor(self, held: Held) -> Any:
        """Return the values, rounded to their element type."""
        return self._ask("tensor", held)

    def dtype(self, name: str) -> Any:
        """Return what stands for an element type."""
        self._ask("dtype", name)
        return _Dtype(name)

    def hold(self, tensor: Any) -> Held | None:
        """Return the elements that stand for a tensor."""
        return tensor if isinstance(tensor, Held) else None

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function."""
        return self._ask("call", function, args, kwargs)

    def autocast(self, function: Callable[..., Any], dtype: str) -> Callable[..., Any]:  # noqa: ARG002
        """Return the function: a benchmark casts nothing."""
        return function

    def gradients(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        incoming: Sequence[Any],
        *,
        copies: bool,
    ) -> list[tuple[Path, Any]]:
        """Return the gradient of each float tensor of the arguments."""
        found: list[tuple[Path, Any]] = self._ask("gradients", function, args, kwargs, incoming, {"copies": copies})
        return found

    def _ask(self, what: str, *given: Any) -> Any:
        """Return the answer of the other process.

        Raises:
            UnusableError: it refuses, or ends.
        """
        if self._process is None:
            self._begin()
        assert self._connection is not None
        try:
            self._connection.send((what, given))
            is_answer, found = self._connection.recv()
        except (OSError, EOFError) as error:
            raise UnusableError(f"the process of the benchmark ended: {self._ended()}") from error
        if is_answer:
            return found
        raise UnusableError(found[0], is_expected=found[1])

    def _begin(self) -> None:
        """Begin a process whose `torch` is PyTorch."""
        while True:
            ours, theirs = socket.socketpair()
            self._process = subprocess.Popen(  # noqa: S603 (this program, with no text of a user)
                [sys.executable, "-c", _START, str(theirs.fileno()), *self._path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
            theirs.close()
            self._connection = Connection(ours.detach())
            try:
                is_adapter = bool(self._connection.recv())
            except (OSError, EOFError) as error:
                raise UnusableError(f"PyTorch cannot be imported for the benchmark: {self._ended()}") from error
            if not is_adapter:
                return
            self._ended()
            self._path = without_first(self._path)

    def _ended(self) -> str:
        """Return how the process ended, and forget it."""
        assert self._process is not None
        assert self._connection is not None
        self._connection.close()
        code = self._process.wait()
        self._process = self._connection = None
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def folders_of_torch(path: Sequence[str]) -> list[str]:
    """Return the entries of a search path that have a package `torch`, in order."""
    return [entry for entry in path if PathFinder.find_spec(PACKAGE, [entry or str(Folder.cwd())]) is not None]


def without_first(path: Sequence[str]) -> list[str]:
    """Return a search path without the first folder that has a package `torch`.

    Raises:
        UnusableError: no other one has.
    """
    first, *others = folders_of_torch(path) or [""]
    if not others:
        raise UnusableError(f"there is no PyTorch for the benchmark: the only `{PACKAGE}` is MSAdapter's, in `{first}`")
    return [entry for entry in path if entry != first]


def serve(descriptor: int) -> None:
    """Answer, in the other process, until nobody asks any more. Say first whether `torch` is MSAdapter there."""
    connection = Connection(descriptor)
    try:
        __import__(PACKAGE)
        is_adapter = "mindspore" in sys.modules  # whose tensors it would hand out
        connection.send(is_adapter)
        if is_adapter:
            return
        from probe_flow.apis.check import torch_side

        server = _Server(torch_side())
        while True:
            what, given = connection.recv()
            connection.send(server.answer(what, given))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


class _Server:
    """Makes calls for another process.

    Args:
        side: that makes them.
    """

    def __init__(self, side: Side) -> None:
        self._side = side

    def answer(self, what: str, given: Sequence[Any]) -> tuple[bool, Any]:
        """Return whether it is an answer, and that or the refusal."""
        try:
            return True, getattr(self, f"_{what}")(*given)
        except UnusableError as error:
            return False, (error.reason, error.is_expected)
        except Exception as error:  # whatever the framework raises
            return False, (f"{type(error).__name__}: {error}".strip(), False)

    def _find(self, kind: str, api: str) -> str:
        return self._side.find(kind, api)[1]

    def _tensor(self, held: Held) -> Held | None:
        return self._side.hold(self._side.tensor(held))

    def _dtype(self, name: str) -> None:
        self._side.dtype(name)

    def _call(self, function: _Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found = self._side.call(self._function(function), *self._own(args, kwargs))
        return self._theirs(found)

    def _gradients(
        self,
        function: _Function,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        incoming: Sequence[Any],
        how: Mapping[str, bool],
    ) -> list[tuple[Path, Any]]:
        gradients = [None if each is None else self._side.tensor(each) for each in incoming]
        own_args, own_kwargs = self._own(args, kwargs)
        found = self._side.gradients(self._function(function), own_args, own_kwargs, gradients, copies=how["copies"])
        return [(place, self._theirs(each)) for place, each in found]

    def _function(self, function: _Function) -> Callable[..., Any]:
        return self._side.find(function.kind, function.api)[0]

    def _own(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments with what the framework has in place of what stands for it."""
        places = tensors_of(args, kwargs, lambda each: isinstance(each, Held | _Dtype | _Device))
        return replaced(args, kwargs, {place: self._made(each) for place, each in places})

    def _made(self, value: Held | _Dtype | _Device) -> Any:
        if isinstance(value, Held):
            return self._side.tensor(value)
        return self._side.dtype(value.name) if isinstance(value, _Dtype) else self._side.device

    def _theirs(self, value: Any) -> Any:
        """Return a result with elements in place of tensors; what has another type than Python's own as its text."""
        if type(value) in (list, tuple):
            return type(value)(self._theirs(each) for each in value)
        held = self._side.hold(value)
        if held is not None:
            return held
        if isinstance(value, tuple | list):  # a named one, or a shape
            return tuple([self._theirs(each) for each in value])
        return value if value is None or isinstance(value, bool | int | float | complex | str) else str(value)
