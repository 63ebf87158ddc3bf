"""Options of dump stages that run a model of torch, beyond those of any framework."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.dump.model_run import ModelName, RunOptions, needs_model

TORCH_MODEL: Any = Field(
    None,
    description="`module:attribute` of a `torch.nn.Module`, or of a function without arguments that returns one; "
    "or a `.py` file or the folder of a package, with `:attribute` (default: `model`). Its code is imported and "
    "run, in a process of its own, when the workflow runs.",
    examples=["net:build", "nets/small.py:build"],
)
"""The option `model` of stages that run models of torch."""


class TorchRunOptions(RunOptions):
    """Options of a stage that adopts a dump or runs a model of torch."""

    model: ModelName | None = TORCH_MODEL
    backward: bool = Field(default=False, description="Also run the backward pass of the sum of the results.")
    device: str | None = Field(None, description="Device that model and inputs are moved to, e.g. `cpu`, `npu:0`.")
    dynamic: bool | None = Field(None, description="`dynamic` of torch.compile: whether shapes may vary.")

    @field_validator("backward", "device", "dynamic", mode="after")
    @classmethod
    def _torch_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def of_framework(self) -> dict[str, Any]:
        return {"device": self.device, "has_backward": self.backward, "dynamic": self.dynamic}
