"""The runner of training steps: weights saved and hashed, one step under TensorFlow's debugger, its manifest.

The dump has the layout of the golden side of `precision_data`: ``tf_debug`` with what the debugger wrote, and
``checkpoints`` with the weights before the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from probe_flow.dumpers.base.runner import DeclaredInput
from probe_flow.dumpers.dump_files import make_folder, write_bytes
from probe_flow.dumpers.tensorflow.library import tf
from probe_flow.dumpers.tensorflow.session_runner import SessionRunner
from probe_flow.dumpers.tensorflow.training import checkpoints
from probe_flow.dumpers.tensorflow.training.graph_step import Built, GraphStep, build, read_meta_graph
from probe_flow.dumpers.tensorflow.training.keras_step import KerasStep
from probe_flow.dumpers.tensorflow.training.step import Step, no_model
from probe_flow.dumps.manifest import DUMP_MANIFEST, DumpManifest, ManifestTensor, Skipped
from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.dumps.training_folder import RUNS
from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, UsageError
from probe_flow.records import Catalog, TensorKind

_META, _KERAS = ".meta", ".keras"
_OF_KERAS = frozenset({"files", "callable"})


class TrainingRunner(SessionRunner):
    """One step of a TF1 graph, or of a Keras model, on the CPU."""

    model_word = "a compiled Keras model"
    model_files = (_META, _KERAS)

    def begin(self) -> None:
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(self.threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        if self.job.is_deterministic:
            tf.config.experimental.enable_op_determinism()
        self._record: dict[str, Any] = {}
        self._parts: list[Path] = []

    def seed(self) -> None:
        tf.random.set_seed(self.job.seed)

    def is_model(self, found: object) -> bool:
        return isinstance(found, (Built, tf.keras.Model)) or callable(found)

    def read_model(self, path: Path) -> Any:
        if path.suffix == _KERAS:
            return tf.keras.models.load_model(path)
        prefix = path.with_suffix("")
        if self.job.dump.get("checkpoint") is None and prefix.with_name(f"{prefix.name}.index").is_file():
            self._beside = str(prefix)
        return read_meta_graph(path, self.job.seed)

    def open(self, model: Any) -> None:
        self._step = self._step_of(model)
        if isinstance(self._step, KerasStep) and not self.job.inputs.keys() <= _OF_KERAS:
            cure = "give `inputs: {files: [x.npy, y.npy]}`, or `module:attribute` of a function that returns (x, y)"
            message = "a Keras model does not say what it is trained on, so its inputs are neither named nor drawn"
            raise UsageError(Diagnostic("PF6323", message, help=cure))
        make_folder(self.folder)
        write_bytes(self.folder, DUMP_MANIFEST, DumpManifest().encoded())

    def _step_of(self, model: Any) -> Step:
        if isinstance(model, (Built, tf.keras.Model)):
            made = model
        else:
            made = self._called(lambda: build(model, self.job.seed))
            if isinstance(made, tf.keras.Model):
                # It was made in a graph, where a function that builds one for a session needs to be; again without.
                self.seed()
                made = self._called(model)
        if isinstance(made, Built):
            return GraphStep(made, self.job, self.config())
        return KerasStep(made, self.job)

    def _called(self, function: Any) -> Any:
        try:
            return function()
        except ProbeFlowError:
            raise
        except Exception as error:  # the user's code may raise anything
            what = f"cannot be called without arguments: {self.words(error)}"
            cure = "name a function that builds the graph of the step and returns its fetches, or a Keras model"
            raise no_model(self.job.model, what, cure) from error

    # -- inputs

    def declared(self) -> Sequence[DeclaredInput] | None:
        return self._step.inputs

    def own_inputs(self) -> Mapping[str, Any]:
        return self._step.own_inputs

    # -- running

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._step.prepare(args, kwargs)
        self._start_from_checkpoint()
        # What the model's code draws while a function is traced must not decide what the step draws.
        self.seed()
        folder = self.folder / checkpoints.FOLDER
        make_folder(folder)
        prefix = self._step.save(str(folder / checkpoints.NAME))
        self._record |= {"fetches": list(self._step.fetches), "draws": [asdict(each) for each in self._step.draws]}
        self._record |= {"layers": list(self._step.layers), **self._weights(prefix)}
        self._step.run(self.folder / RUNS)

    def _start_from_checkpoint(self) -> None:
        given = self.job.dump.get("checkpoint")
        start = checkpoints.prefix_of(given, "checkpoint") if given else getattr(self, "_beside", None)
        if start is None:
            return
        self._parts += checkpoints.files_of(start)
        try:
            lacking = self._step.restore(start)
        except (tf.errors.OpError, ValueError) as error:
            what = f"the weights in `{Path(start).name}` cannot be restored: {self.words(error)}"
            cure = "check that the checkpoint is one of this model, and that its files are whole"
            raise UsageError(Diagnostic("PF6322", what, help=cure, path=start)) from error
        self._record |= {"start": start, "not_restored": list(lacking)}

    def _weights(self, prefix: str) -> dict[str, Any]:
        """Return the hashes of the checkpoint before the step, and how that of the device differs."""
        own = checkpoints.weights_in(prefix, "checkpoint")
        place = f"{checkpoints.FOLDER}/{Path(prefix).name}"
        found: dict[str, Any] = {
            "checkpoint": {"prefix": place, "sha256": own.sha256, "variables": dict(own.variables)},
        }
        given = self.job.dump.get("device_checkpoint")
        if given:
            device = checkpoints.prefix_of(given, "device_checkpoint")
            self._parts += checkpoints.files_of(device)
            theirs = checkpoints.weights_in(device, "device_checkpoint")
            different, missing = checkpoints.differences(own, theirs)
            found["device_checkpoint"] = {
                "prefix": device, "sha256": theirs.sha256, "different": different, "missing": missing,
            }  # fmt: skip
        return found

    def model_parts(self) -> Sequence[Path]:
        return self._parts

    def finish(self) -> Mapping[str, Any]:
        self._step.close()
        try:
            self._catalog = read_tfdbg(self.folder / RUNS, side="golden")
        except IncompleteError as error:
            cure = "a step without operators has nothing to dump; the log says what TensorFlow did"
            raise IncompleteError(
                Diagnostic("PF6327", f"nothing was dumped: {error.diagnostic.message}", help=cure)
            ) from error
        return {"tensors": len(self._catalog.tensors), "threads": self.threads, **self._record}

    def conclude(self, record: Mapping[str, Any]) -> None:
        tensors, skipped = _listed(self._catalog, self.folder)
        facts = self.job.facts(record, f"{self.framework} {tf.__version__}")
        names = ("fetches", "draws", "layers", "start", "not_restored", "checkpoint", "device_checkpoint")
        own = {name: record[name] for name in names if name in record}
        count = len(tensors)
        manifest = DumpManifest(
            is_complete=True,
            expected=count + len(skipped),
            written=count,
            skipped=tuple(skipped),
            tensors=tuple(tensors),
            facts={**facts, **own},
        )
        write_bytes(self.folder, DUMP_MANIFEST, manifest.encoded())


def _listed(catalog: Catalog, folder: Path) -> tuple[list[ManifestTensor], list[Skipped]]:
    """Return the tensors of a dump, and those without numbers with the reason."""
    root = folder.resolve()
    tensors, skipped = [], []
    for ref in catalog.tensors:
        node, index = ref.node, ref.slot.path[0]
        if ref.kind is not TensorKind.TENSOR or ref.shape is None:
            skipped.append(Skipped(f"{node.name}:{index}", ref.reason or "it cannot be read"))
            continue
        file = Path(ref.extents[0].file).relative_to(root).as_posix()
        name = ref.facts.item or f"{node.name}:{index}"
        op_type = catalog.nodes[node].op_type
        tensors.append(
            ManifestTensor(
                file, node.name, "output", index, ref.dtype, ref.shape, op_type, name, item=node.call or None
            )
        )
    return tensors, skipped
