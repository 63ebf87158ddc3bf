"""Operators that the device cut into slices, read as the tensors they are."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import ge_writer
import numpy as np
import pytest
from ge_writer import DumpTensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torchair_builders import FIRST_US, GeDump, Op, X, mul_add_relu, write_device_op, write_mul_add_relu

from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import CODES, NotComparableError
from probe_flow.records import Catalog, TensorKind

DATA = np.random.default_rng(5).normal(size=(4, 6, 8)).astype("f4")


def table(is_automatic, cuts, count=2, inputs=(), outputs=()) -> str:
    """Return the description of the slices; ``inputs`` and ``outputs`` hold ranges by thread, tensor, axis."""

    def ranges(threads):
        return [[[{"lower": a, "higher": b} for a, b in tensor] for tensor in tensors] for tensors in threads]

    return json.dumps(
        {
            "threadMode": is_automatic,
            "slice_instance_num": count,
            "outputCutList": cuts,
            "input_tensor_slice": ranges(inputs),
            "output_tensor_slice": ranges(outputs),
        }
    )


def whole(shape):
    return [(0, size) for size in shape]


def part_of(shape, axis, lower, higher):
    return [(lower, higher) if at == axis else (0, size) for at, size in enumerate(shape)]


def write_slice(folder, name, number, text, *, inputs=(), outputs=(), at=20, manual=False, op_type="Conv", task=4):
    folder.mkdir(parents=True, exist_ok=True)
    cut_name = f"{name}_lxslice{number}" if manual else name
    tail = () if manual else (task, 1, number, 0)
    path = folder / ge_writer.file_name(op_type, cut_name, 12, 7, FIRST_US + at + number, tail)
    tensors = [
        [i if isinstance(i, DumpTensor) else DumpTensor(i, "float32") for i in side] for side in (inputs, outputs)
    ]
    attrs = [] if text is None else [("fftsplus", text)]
    return ge_writer.write_dump(path, op_name=cut_name, inputs=tensors[0], outputs=tensors[1], attrs=attrs)


def read(dump: GeDump, **options) -> Catalog:
    return read_torchair_ge(dump.root, side="target", **options)


def codes(catalog: Catalog) -> Counter:
    assert all(problem.code in CODES for problem in catalog.problems)
    return Counter(problem.code for problem in catalog.problems)


def refs_of(catalog: Catalog, name: str):
    return {str(ref.slot): ref for ref in catalog.tensors if ref.node.name == name}


def values(ref, size=7):
    with open_tensor(ref) as blocks:
        pieces = [blocks.read(i, min(i + size, blocks.numel)).copy() for i in range(0, blocks.numel, size)]
    return np.concatenate(pieces).reshape(ref.logical_shape)


@pytest.fixture
def dump(tmp_path) -> GeDump:
    made = GeDump(tmp_path / "msprobe_ge_dump")
    made.graph([*mul_add_relu(), Op("conv", "Conv", ("Relu:0",), [(None, DATA.shape)])])
    write_mul_add_relu(made.token(0), None)
    return made


class TestManualSlices:
    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_outputs_join_along_the_cut_axis(self, dump, axis):
        cuts = [2 if at == axis else 1 for at in range(3)]
        for number, half in enumerate(np.split(DATA, [1], axis)):
            text = table(is_automatic=False, cuts=[cuts])
            write_slice(dump.token(0), "conv", number, text, inputs=[X], outputs=[half], manual=True)
        catalog = read(dump)
        refs = refs_of(catalog, "conv")
        assert catalog.problems == ()
        assert [extent.part for extent in refs["output.0"].extents] == [(axis, 0), (axis, 1)]
        np.testing.assert_array_equal(values(refs["output.0"]), DATA)
        # The inputs are those of the first slice.
        np.testing.assert_array_equal(values(refs["input.0"]), X)
        (node,) = (node for key, node in catalog.nodes.items() if key.name == "conv")
        assert len(node.facts.slices) == 2
        assert node.attributes["graph_type"] == "Conv"

    def test_twelve_slices_join_in_numeric_order(self, dump):
        data = np.arange(24, dtype="f4").reshape(12, 2)
        for number in reversed(range(12)):
            text = table(is_automatic=False, cuts=[[12, 1]], count=12)
            write_slice(dump.token(0), "conv", number, text, outputs=[data[number : number + 1]], manual=True)
        np.testing.assert_array_equal(values(refs_of(read(dump), "conv")["output.0"]), data)

    def test_private_layouts_join_and_are_undone(self, dump):
        data = np.random.default_rng(6).normal(size=(2, 40, 70)).astype("f4")
        for number, half in enumerate(np.split(data, [32], 2)):
            stored = DumpTensor(half, "float32", "FRACTAL_NZ")
            text = table(is_automatic=False, cuts=[[1, 2, 1, 1, 1]])
            write_slice(dump.token(0), "conv", number, text, outputs=[stored], manual=True)
        (ref,) = refs_of(read(dump), "conv").values()
        assert ref.logical_shape == (2, 40, 70)
        np.testing.assert_array_equal(values(ref, 1000), data)

    def test_several_outputs_are_cut_each_in_its_own_way(self, dump):
        for number, half in enumerate(np.split(DATA, 2, 1)):
            text = table(is_automatic=False, cuts=[[1, 1], [1, 2, 1]])
            write_slice(dump.token(0), "conv", number, text, outputs=[X + number, half], manual=True)
        refs = refs_of(read(dump), "conv")
        np.testing.assert_array_equal(values(refs["output.0"]), X)
        np.testing.assert_array_equal(values(refs["output.1"]), DATA)

    def test_a_slice_mark_inside_a_name_is_part_of_it(self, dump):
        for number, half in enumerate(np.split(DATA, 2)):
            text = table(is_automatic=False, cuts=[[2, 1, 1]])
            write_slice(dump.token(0), "a_lxslice0_b", number, text, outputs=[half], manual=True)
        np.testing.assert_array_equal(values(refs_of(read(dump), "a_lxslice0_b")["output.0"]), DATA)


class TestAutomaticSlices:
    def write(self, folder, *, skip=(), inputs=None, ranges=None, axis=1, bounds=(0, 2, 3, 6), **options):
        """Write one slice for each range along an axis; what is skipped is described and not written."""
        pieces = list(pairwise(bounds))
        outputs = ranges or [[part_of(DATA.shape, axis, *piece)] for piece in pieces]
        cuts = [[len(pieces) if at == axis else 1 for at in range(3)]]
        text = table(is_automatic=True, cuts=cuts, count=len(pieces), inputs=inputs or (), outputs=outputs)
        for number, (lower, higher) in enumerate(pieces):
            if number not in skip:
                part = DATA.take(range(lower, higher), axis)
                write_slice(folder, "conv", number, text, inputs=[X], outputs=[part], **options)

    @pytest.mark.parametrize(("axis", "bounds"), [(0, (0, 1, 4)), (1, (0, 2, 3, 6)), (2, (0, 5, 6, 8))])
    def test_outputs_join_by_the_ranges_of_the_threads(self, dump, axis, bounds):
        self.write(dump.token(0), axis=axis, bounds=bounds)
        catalog = read(dump)
        assert catalog.problems == ()
        np.testing.assert_array_equal(values(refs_of(catalog, "conv")["output.0"]), DATA)

    @pytest.mark.parametrize("task", [0, 1, 4])
    def test_the_kind_of_task_does_not_matter(self, dump, task):
        self.write(dump.token(0), task=task)
        np.testing.assert_array_equal(values(refs_of(read(dump), "conv")["output.0"]), DATA)

    def test_an_output_that_only_a_later_slice_holds_stays_visible(self, dump):
        text = table(is_automatic=False, cuts=[[2, 1, 1], [2, 1]])
        write_slice(dump.token(0), "conv", 0, text, outputs=[DATA[:2]], manual=True)
        write_slice(dump.token(0), "conv", 1, text, outputs=[DATA[2:], X], manual=True)
        refs = refs_of(read(dump), "conv")
        np.testing.assert_array_equal(values(refs["output.0"]), DATA)
        assert refs["output.1"].kind is TensorKind.UNREADABLE
        assert "does not hold it" in (refs["output.1"].reason or "")

    def test_files_of_two_name_forms_are_duplicates(self, dump):
        write_device_op(dump.token(0), "Conv", "conv", at=30, outputs=[DATA])
        write_device_op(dump.token(0), "Conv", "conv", at=40, outputs=[-DATA], tail=(0, 1, 0, 0))
        catalog = read(dump)
        np.testing.assert_array_equal(values(refs_of(catalog, "conv")["output.0"]), -DATA)
        assert codes(catalog) == {"PF3206": 1}

    def test_a_header_that_describes_the_whole_tensor_takes_the_shape_of_its_thread(self, dump):
        halves = np.split(DATA, 2)
        outputs = [[part_of(DATA.shape, 0, 0, 2)], [part_of(DATA.shape, 0, 2, 4)]]
        text = table(is_automatic=True, cuts=[[2, 1, 1]], outputs=outputs)
        for number, half in enumerate(halves):
            body = ge_writer.field_varint(1, 1) + ge_writer.field_varint(2, 2)
            body += ge_writer.field_bytes(3, ge_writer.shape_message(DATA.shape))
            body += ge_writer.field_varint(6, half.nbytes)
            attr = ge_writer.field_bytes(1, b"ffts") + ge_writer.field_bytes(2, text.encode())
            header = ge_writer.field_bytes(3, body) + ge_writer.field_bytes(7, attr)
            name = ge_writer.file_name("Conv", "conv", 12, 7, FIRST_US + 20 + number, (4, 1, number, 0))
            (dump.token(0) / name).write_bytes(ge_writer.container(header, half.tobytes()))
        catalog = read(dump)
        assert catalog.problems == ()
        np.testing.assert_array_equal(values(refs_of(catalog, "conv")["output.0"]), DATA)

    def test_inputs_join_where_threads_take_one_part_after_the_other(self, dump):
        shape = (4, 3)
        data = np.arange(12, dtype="f4").reshape(shape)
        inputs = [[part_of(shape, 0, 0, 1), whole(X.shape)], [part_of(shape, 0, 1, 4), whole(X.shape)]]
        outputs = [[part_of(shape, 0, 0, 1)], [part_of(shape, 0, 1, 4)]]
        text = table(is_automatic=True, cuts=[[2, 1]], inputs=inputs, outputs=outputs)
        for number, part in enumerate(np.split(data, [1])):
            write_slice(dump.token(0), "conv", number, text, inputs=[part, X], outputs=[-part])
        refs = refs_of(read(dump), "conv")
        np.testing.assert_array_equal(values(refs["input.0"]), data)
        np.testing.assert_array_equal(values(refs["input.1"]), X)
        np.testing.assert_array_equal(values(refs["output.0"]), -data)

    def test_inputs_that_overlap_are_passed_over_with_their_reason(self, dump):
        shape = (4, 3)
        data = np.arange(12, dtype="f4").reshape(shape)
        outputs = [[part_of(shape, 0, 0, 2)], [part_of(shape, 0, 2, 4)]]
        inputs = [[part_of(shape, 0, 0, 3)], [part_of(shape, 0, 1, 4)]]
        text = table(is_automatic=True, cuts=[[2, 1]], inputs=inputs, outputs=outputs)
        for number in range(2):
            part = data[2 * number : 2 * number + 2]
            write_slice(dump.token(0), "conv", number, text, inputs=[data[number : number + 3]], outputs=[part])
        catalog = read(dump)
        refs = refs_of(catalog, "conv")
        assert refs["input.0"].kind is TensorKind.OPAQUE
        assert "overlap" in (refs["input.0"].reason or "")
        np.testing.assert_array_equal(values(refs["output.0"]), data)
        assert codes(catalog) == {"PF3024": 1}

    def test_a_missing_slice_makes_the_output_unreadable(self, dump):
        self.write(dump.token(0), skip=(1,))
        catalog = read(dump)
        ref = refs_of(catalog, "conv")["output.0"]
        assert ref.kind is TensorKind.UNREADABLE
        assert "3 slices were made, 2 are there (number 0, 2)" in (ref.reason or "")
        assert codes(catalog) == {"PF3024": 1}

    def test_one_slice_alone_is_not_taken_for_the_whole(self, dump):
        self.write(dump.token(0), skip=(1, 2))
        assert refs_of(read(dump), "conv")["output.0"].kind is TensorKind.UNREADABLE

    def test_a_damaged_slice_makes_the_outputs_unreadable_and_keeps_the_rest(self, dump):
        self.write(dump.token(0))
        bad = next(path for path in dump.token(0).iterdir() if path.name.endswith(".4.1.2.0"))
        bad.write_bytes(bad.read_bytes()[:40])
        catalog = read(dump)
        refs = refs_of(catalog, "conv")
        assert refs["output.0"].kind is TensorKind.UNREADABLE
        assert refs["input.0"].kind is TensorKind.TENSOR
        assert codes(catalog) == {"PF3011": 1, "PF3024": 1}

    def test_only_damaged_slices_leave_one_unreadable_node(self, dump):
        self.write(dump.token(0))
        for path in dump.token(0).iterdir():
            if path.name.startswith("Conv."):
                path.write_bytes(b"")
        catalog = read(dump)
        assert [ref.kind for ref in refs_of(catalog, "conv").values()] == [TensorKind.UNREADABLE]
        assert codes(catalog) == {"PF3010": 3}

    def test_a_cut_off_slice_is_named(self, dump):
        self.write(dump.token(0))
        bad = next(path for path in dump.token(0).iterdir() if path.name.endswith(".4.1.1.0"))
        bad.write_bytes(bad.read_bytes()[:-1])
        catalog = read(dump)
        ref = refs_of(catalog, "conv")["output.0"]
        assert ref.kind is TensorKind.UNREADABLE
        assert "cut off" in (ref.reason or "")
        assert codes(catalog) == {"PF3015": 1, "PF3024": 1}

    @pytest.mark.parametrize(
        ("ranges", "words"),
        [
            ([(0, 2), (3, 4), (3, 6)], "overlap or leave gaps"),
            ([(1, 3), (3, 4), (4, 7)], "overlap or leave gaps"),
            ([(0, 2), (2, 4), (4, 6)], "its description says"),
        ],
    )
    def test_ranges_that_contradict_the_slices_are_found(self, dump, ranges, words):
        self.write(dump.token(0), ranges=[[part_of(DATA.shape, 1, *piece)] for piece in ranges])
        ref = refs_of(read(dump), "conv")["output.0"]
        assert ref.kind is TensorKind.UNREADABLE
        assert words in (ref.reason or "")

    def test_an_operator_that_ran_in_one_piece_is_ordinary(self, dump):
        text = table(is_automatic=True, cuts=[[1, 1, 1]], count=1, outputs=[[whole(DATA.shape)]])
        write_slice(dump.token(0), "conv", 0, text, outputs=[DATA])
        catalog = read(dump)
        assert catalog.problems == ()
        np.testing.assert_array_equal(values(refs_of(catalog, "conv")["output.0"]), DATA)

    @pytest.mark.parametrize("rule", ["newest", "first"])
    def test_of_a_slice_that_was_dumped_twice_one_counts(self, dump, rule):
        self.write(dump.token(0))
        old = next(path for path in dump.token(0).iterdir() if path.name.endswith(".4.1.1.0"))
        text = old.name.replace(str(FIRST_US + 21), str(FIRST_US + 99))
        content = old.read_bytes()
        (dump.token(0) / text).write_bytes(content[:-4] + np.float32(123).tobytes())
        catalog = read(dump, duplicates=rule)
        found = values(refs_of(catalog, "conv")["output.0"])
        assert (123 in found) == (rule == "newest")
        assert codes(catalog) == {"PF3206": 1}


class TestDescriptions:
    def write(self, folder, text, *, manual=True):
        for number, half in enumerate(np.split(DATA, 2)):
            write_slice(folder, "conv", number, text, outputs=[half], manual=manual)

    @pytest.mark.parametrize("text", [None, "no json at all", table(False, []), table(False, [[1, 1, 1]])])
    def test_without_a_cut_list_the_newest_slice_stands_alone(self, dump, text):
        self.write(dump.token(0), text)
        catalog = read(dump)
        np.testing.assert_array_equal(values(refs_of(catalog, "conv")["output.0"]), DATA[2:])
        assert codes(catalog) == {"PF3025": 1}
        assert catalog.problems[0].notes

    def test_several_cut_axes_are_refused(self, dump):
        self.write(dump.token(0), table(is_automatic=False, cuts=[[2, 2, 1]]))
        ref = refs_of(read(dump), "conv")["output.0"]
        assert "axes 0, 1" in (ref.reason or "")

    @pytest.mark.parametrize(
        "text",
        [
            '{"threadMode": tru',
            '["threadMode"]',
            '{"threadMode": 1, "slice_instance_num": -1}',
            '{"threadMode": 1, "slice_instance_num": "2"}',
            '{"threadMode": 1, "outputCutList": 7}',
            '{"threadMode": 1, "outputCutList": [[true, 2]]}',
            '{"threadMode": 1, "output_tensor_slice": [[[{"lower": 8, "higher": 4}]]]}',
            '{"threadMode": 1, "output_tensor_slice": [[[{"lower": 8}]]]}',
            '{"threadMode": 1, "output_tensor_slice": [[[5]]]}',
            '{"threadMode": 1, "output_tensor_slice": [[[{"lower": 0, "higher": 99999999999999999999}]]]}',
            '{"threadMode": ' + "[" * 100_000,
        ],
    )
    def test_a_malformed_description_makes_the_outputs_unreadable(self, dump, text):
        self.write(dump.token(0), text, manual=False)
        catalog = read(dump)
        assert refs_of(catalog, "conv")["output.0"].kind is TensorKind.UNREADABLE
        assert codes(catalog)["PF3023"] >= 1
        assert codes(catalog)["PF3024"] == 1

    def test_an_endless_description_is_not_read(self, dump, monkeypatch):
        monkeypatch.setattr("probe_flow.dumps.device.slices.MAX_TEXT", 50)
        self.write(dump.token(0), table(is_automatic=False, cuts=[[2, 1, 1]]))
        assert codes(read(dump))["PF3023"] >= 1

    def test_slices_of_other_shapes_or_types_do_not_join(self, dump):
        text = table(is_automatic=False, cuts=[[2, 1, 1]])
        write_slice(dump.token(0), "conv", 0, text, outputs=[DATA[:2]], manual=True)
        write_slice(dump.token(0), "conv", 1, text, outputs=[DATA[2:, :, :5]], manual=True)
        write_slice(dump.token(0), "pool", 0, text, outputs=[DATA[:2]], manual=True, op_type="Pool")
        half = DumpTensor(DATA[2:], "float16")
        write_slice(dump.token(0), "pool", 1, text, outputs=[half], manual=True, op_type="Pool")
        catalog = read(dump)
        assert "do not fit together" in (refs_of(catalog, "conv")["output.0"].reason or "")
        assert "different types" in (refs_of(catalog, "pool")["output.0"].reason or "")
        assert codes(catalog) == {"PF3024": 2}


def test_the_subgraph_before_the_name_of_a_sliced_operator_is_not_part_of_it(tmp_path):
    dump = GeDump(tmp_path)
    dump.graph([Op("layer/conv", "Conv", (), [(None, DATA.shape)])])
    for number, half in enumerate(np.split(DATA, 2)):
        text = table(is_automatic=False, cuts=[[2, 1, 1]])
        write_slice(dump.token(0), "x/sgt_graph_3/layer/conv", number, text, outputs=[half], manual=True)
    assert {key.name for key in read(dump).nodes} == {"layer/conv"}


def test_a_whole_operator_beside_slices_of_the_same_name_stays(dump):
    for number, half in enumerate(np.split(DATA, 2)):
        text = table(is_automatic=False, cuts=[[2, 1, 1]])
        write_slice(dump.token(0), "conv", number, text, outputs=[half], manual=True)
    write_device_op(dump.token(0), "Conv", "conv", at=90, outputs=[DATA])
    assert [key.call for key in read(dump).nodes if key.name == "conv"] == [0, 1]


@pytest.mark.parametrize("manual", [True, False])
@pytest.mark.parametrize("ending", ["_min_max.npz", ".csv"])
def test_statistics_of_slices_do_not_stand_for_the_whole(dump, manual, ending):
    for number, half in enumerate(np.split(DATA, 2)):
        path = write_slice(dump.token(0), "conv", number, None, outputs=[half], manual=manual)
        path.rename(path.with_name(path.name + ending))
    catalog = read(dump)
    assert [ref.kind for ref in refs_of(catalog, "conv").values()] == [TensorKind.UNREADABLE]
    assert codes(catalog) == {"PF3024": 1}


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damaged_slices_are_read_or_refused_with_a_reason(tmp_path_factory, data):
    dump = GeDump(tmp_path_factory.mktemp("fuzz"))
    axis = data.draw(st.integers(0, 2))
    layout = data.draw(st.sampled_from(["ND", "NCHW", "FRACTAL_NZ"]))
    outputs = [[part_of(DATA.shape, axis, 0, 1)], [part_of(DATA.shape, axis, 1, DATA.shape[axis])]]
    text = table(
        is_automatic=data.draw(st.booleans()),
        cuts=[[data.draw(st.integers(0, 3)) for _ in range(data.draw(st.integers(0, 6)))]],
        count=data.draw(st.integers(0, 3)),
        inputs=outputs,
        outputs=outputs,
    )
    for number, part in enumerate(np.split(DATA, [1], axis)):
        tensor = DumpTensor(part, data.draw(st.sampled_from(["float32", "int4", "float16"])), layout)
        path = write_slice(dump.token(0), "conv", number, text, inputs=[tensor], outputs=[tensor])
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(0, 2))):
            content[data.draw(st.integers(8, min(len(content), 900) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
    catalog = read(dump)
    assert codes(catalog) is not None
    assert catalog.tensors
    for ref in catalog.tensors:
        if ref.kind is TensorKind.TENSOR:
            assert readable(ref) in ("", "PF3103", "PF5110", "PF5111", "PF5113")
        else:
            assert ref.reason


def readable(ref):
    """Read a tensor whole; return the code of what kept it from being compared, if anything did."""
    try:
        with open_tensor(ref) as blocks:
            assert blocks.read(0, blocks.numel).size == ref.numel
    except NotComparableError as error:
        return error.diagnostic.code
    return ""
