"""Run a model of torch: seeds, threads and devices, inputs as its tensors, calls with or without a backward pass."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from numpy.typing import NDArray

from probe_flow.dumpers.base.runner import WORDS, NotHeldError, Runner
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.opening import open_bytes

_EXPLANATION = "Explanation:"


class TorchRunner(Runner):
    """What runners of torch models have in common; each adds what stands between the model and its calls."""

    framework = "torch"
    libraries = ("torch", "numpy", "torch-npu", "torchair")
    model_word = "a `torch.nn.Module`"
    input_help = "give `.npy` arrays of numbers, or `.pt` files of tensors"

    @abstractmethod
    def dumping(self, model: Any) -> Any:
        """Return what is called in place of the model, and dumps it."""

    def seed(self) -> None:
        torch.manual_seed(self.job.seed)
        if self.job.is_deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            # What has no deterministic form warns, into the log, and still runs.
            torch.use_deterministic_algorithms(True, warn_only=True)  # noqa: FBT003

    def is_model(self, found: object) -> bool:
        return isinstance(found, torch.nn.Module)

    def open(self, model: Any) -> None:
        if isinstance(model, torch.nn.Module):
            if self.job.device is not None:
                model = model.to(self.job.device)
            if not self.job.has_backward:
                model = model.eval()
        if self.job.threads is not None:
            torch.set_num_threads(self.job.threads)
        self._model = self.dumping(model)

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        found = getattr(torch, dtype, None)
        if not isinstance(found, torch.dtype):
            return None
        if found == torch.bool:
            return "bool"
        return "float" if found.is_floating_point or found.is_complex else "integer"

    def tensor(self, array: NDArray[Any], dtype: str | None) -> Any:
        tensor = torch.from_numpy(array)
        return tensor if dtype is None else tensor.to(getattr(torch, dtype))

    def read_inputs(self, path: Path) -> Any:
        with open_bytes(path) as file:
            return torch.load(file, map_location="cpu", weights_only=True)

    def copied(self, inputs: Any) -> Any:
        return on_tensors(lambda tensor: tensor.detach().clone(), inputs)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        from probe_flow.dumpers.torch.tensors import dtype_name

        return (dtype_name(value), tuple(value.shape)) if isinstance(value, torch.Tensor) else None

    def stored(self, tensor: Any) -> tuple[NDArray[Any], bytes]:
        from probe_flow.dumpers.torch.tensors import host_array

        try:
            raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            return host_array(tensor), raw
        except RuntimeError as error:
            raise NotHeldError(str(error)) from error

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if self.job.device is not None:
            args, kwargs = on_tensors(lambda tensor: tensor.to(self.job.device), (tuple(args), dict(kwargs)))
        with contextlib.nullcontext() if self.job.has_backward else torch.no_grad():
            result = self._model(*args, **kwargs)
        if self.job.has_backward:
            self.backward(result)

    def backward(self, result: Any) -> None:
        """Run the backward pass."""
        sum_of(result).backward()

    def words(self, error: BaseException) -> str:
        """Return kind and first line of an error, of one that torch met while it captured the model what it says of it.

        torch puts its own heading first then, and the error itself into a line that begins with ``Explanation``.
        """
        lines = [line.strip() for line in str(error).splitlines()]
        explained = [line for line in lines if line.startswith(_EXPLANATION)]
        if not explained:
            return super().words(error)
        text = explained[0].removeprefix(_EXPLANATION).strip()
        _, met, inner = text.partition(": got ")
        return inner[:WORDS] if met else f"{type(error).__name__}: {text[:WORDS]}"


def on_tensors(change: Any, values: Any) -> Any:
    """Return arguments with their tensors changed."""
    from torch.utils._pytree import tree_map

    return tree_map(lambda value: change(value) if isinstance(value, torch.Tensor) else value, values)


def sum_of(result: Any) -> torch.Tensor:
    """Return the sum of all results that require a gradient.

    Raises:
        IncompleteError: PF6324 there is none.
    """
    from torch.utils._pytree import tree_leaves

    leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        raise IncompleteError(
            Diagnostic(
                "PF6324",
                "the model has no result to differentiate: none requires a gradient",
                help="leave out `backward`, or make parameters that require gradients",
            )
        )
    return torch.stack([leaf.sum().real.to(torch.float32) for leaf in leaves]).sum()
