# Every target sets up what it needs, so that a fresh clone is one command away from a result.
PYTHON ?= python3
VENV ?= .venv
MINDSPORE_VENV ?= .venv-mindspore
MODELS_VENV ?= .venv-models
VIEWER_VENV ?= .venv-viewer
LOWEST_VENV ?= .venv-lowest
BIN := $(VENV)/bin
JOBS ?= auto

.DEFAULT_GOAL := help
.PHONY: run test test-frameworks test-mindspore test-models test-viewer test-lowest fuzz lint bench bench-quick bench-guard docs docs-site wheel help

$(VENV)/core.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/core.stamp

$(VENV)/frameworks.stamp: $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,accel]' torch
	touch $@

# mindspore needs numpy 1 and has no wheel for Python 3.13, so it lives in a folder of its own, with torch beside it:
# pre-checks run both in one process.
$(MINDSPORE_VENV)/frameworks.stamp: pyproject.toml constraints-mindspore.txt
	$(PYTHON) -m venv $(MINDSPORE_VENV)
	$(MINDSPORE_VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints-mindspore.txt \
	  -e '.[dev,mindspore]' torch
	touch $@

# tensorflow holds back h5py, and takes a gigabyte: what runs files of models lives in a folder of its own.
$(MODELS_VENV)/frameworks.stamp: pyproject.toml constraints-models.txt
	$(PYTHON) -m venv $(MODELS_VENV)
	$(MODELS_VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints-models.txt \
	  -e '.[dev,onnx,caffe,tensorflow]'
	touch $@

$(LOWEST_VENV)/dev.stamp: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[dev]'
	touch $@

$(VENV)/docs.stamp: $(VENV)/core.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# TensorBoard lives in a folder of its own: nothing of ours imports it.
$(VIEWER_VENV)/viewer.stamp: Makefile
	$(PYTHON) -m venv $(VIEWER_VENV)
	$(VIEWER_VENV)/bin/pip install --quiet --disable-pip-version-check tensorboard==2.21.0 tb-graph-ascend==8.3.2
	touch $@

run: $(VENV)/core.stamp ## compare the bundled dumps: first with a fault, then healthy
	@echo '== 1 of 2: a device dump with a fault (exit code 1 is expected)'
	@$(BIN)/probe-flow run workflows/torchair_ge_vs_fx.yaml; code=$$?; \
	  echo; echo "exit code $$code: 1 means that the run ended and the gate failed, because one operator of this dump is wrong on purpose"; \
	  test $$code -eq 1
	@echo
	@echo '== 2 of 2: the same model without the fault'
	@$(BIN)/probe-flow run workflows/torchair_ge_vs_fx.yaml \
	  --set target=examples/torchair/healthy/msprobe_ge_dump --set golden=examples/torchair/healthy/msprobe_fx_dump

test: $(VENV)/dev.stamp ## run the tests (no framework needed)
	$(BIN)/pytest -n $(JOBS) -m 'not frameworks'

test-frameworks: $(VENV)/frameworks.stamp ## run the tests that need torch, numba, onnxruntime, opencv, tensorflow or mindspore
	$(BIN)/pytest -n $(JOBS) -m frameworks
	$(MAKE) test-models
	@if $(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then \
	  $(MAKE) test-mindspore; \
	else \
	  echo 'skipped: the tests that need mindspore, which has no wheel for this Python'; \
	fi

test-mindspore: $(MINDSPORE_VENV)/frameworks.stamp ## run the tests that need mindspore
	$(MINDSPORE_VENV)/bin/pytest -n 0 -m frameworks \
	  tests/unit/generate/test_mindspore_graph_generator.py tests/e2e/test_precheck_frameworks.py \
	  tests/unit/dumpers/mindspore tests/e2e/test_dump_mindspore.py tests/e2e/test_layers_of_both_frameworks.py \
	  tests/unit/matching/name/test_slots.py

test-models: $(MODELS_VENV)/frameworks.stamp ## run the tests that need onnxruntime, opencv or tensorflow
	$(MODELS_VENV)/bin/pytest -n 0 -m frameworks tests/unit/dumpers/onnx tests/unit/dumpers/caffe \
	  tests/unit/dumpers/tensorflow tests/unit/dumpers/test_model_snippets.py tests/unit/apis/onnx \
	  tests/e2e/test_run_models.py tests/e2e/test_repro_onnx.py \
	  tests/e2e/test_tf_training_model.py tests/unit/dumps/tfdbg tests/cli/test_tf_snippets.py

test-viewer: $(VENV)/dev.stamp $(VIEWER_VENV)/viewer.stamp ## open our graphs in the viewer of msprobe's users
	PROBE_FLOW_VIEWER=$(abspath $(VIEWER_VENV))/bin/tensorboard $(BIN)/pytest -n 0 -m viewer tests/viewer

test-lowest: $(LOWEST_VENV)/dev.stamp ## run the tests with the least versions that pyproject.toml allows
	$(LOWEST_VENV)/bin/pytest -n $(JOBS) -m 'not frameworks'

fuzz: $(VENV)/dev.stamp ## look for inputs that crash a reader, for an hour (FUZZ_SECONDS=, FUZZ_EXECUTIONS=, TARGETS='npy om')
	PYTHONPATH=tests:tests/support:tools/samples $(BIN)/python -m fuzz $(TARGETS)

lint: $(VENV)/dev.stamp ## check style, types and the floor plan
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev.stamp ## measure speed and memory on this machine (PEER=/path/to/msprobe: beside msprobe)
	$(BIN)/python -m benchmarks.run $(if $(PEER),--peer $(PEER))

bench-quick: $(VENV)/dev.stamp ## the same on small data, in a minute
	$(BIN)/python -m benchmarks.run --quick --runs 1 $(if $(PEER),--peer $(PEER))

bench-guard: $(VENV)/dev.stamp ## hold the CPU time against that of the last release (REF=revision of git)
	$(BIN)/python -m benchmarks.guard $(REF)

docs: $(VENV)/core.stamp ## write the generated reference pages and schemas
	$(BIN)/python docs/generate.py

docs-site: $(VENV)/docs.stamp ## build the documentation site in build/site, and run every command of its pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

wheel: docs-site $(VENV)/dev.stamp ## build the package, with the site that `probe-flow docs` opens, in dist
	PROBE_FLOW_SITE=build/site $(BIN)/python -m build --wheel

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 18
