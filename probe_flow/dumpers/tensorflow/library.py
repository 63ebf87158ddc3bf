"""TensorFlow itself, imported with the settings that it reads only then. Whatever needs it takes it from here."""

from __future__ import annotations

import os

# oneDNN chooses kernels by the processor, and so the last bits.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import tensorflow as tf

__all__ = ["tf"]
