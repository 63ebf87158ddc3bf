"""Operators."""

from mindspore import GradOperation as GradOperation
