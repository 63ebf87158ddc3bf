"""The conformance checklist of TorchAir dumps: every item, and the tests that answer it.

Items that one place answers are tested there; `WHERE` names the place, and a test checks that it exists. What no other
place answers is tested here.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import nano_writer
import numpy as np
import pytest
from ge_writer import DumpTensor, dump_bytes
from run_records import first_divergence
from torchair_builders import (
    FIRST_US,
    GeDump,
    Op,
    X,
    Y,
    Z,
    fx_token,
    mul_add_relu,
    write_device_op,
    write_fx_node,
    write_mul_add_relu,
)
from torchair_checks import check_complete, golden_of, missing, reasons

from e2e.projects import TORCHAIR
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"

WHERE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "1 vectors of element types": (
            "unit/tensors/test_dtypes.py::test_hifloat8_vectors",
            "unit/tensors/test_dtypes.py::test_hifloat8_follows_the_bit_rules_for_all_codes",
            "unit/tensors/test_dtypes.py::test_8_bit_floats_equal_ml_dtypes_for_all_codes",
            "unit/dumps/device/test_device_file.py::test_every_dtype_comes_back",
        ),
        "1 byte-exact dump file": (
            "unit/dumps/device/test_device_file.py::test_published_container_reads_field_by_field",
        ),
        "1 vectors of layouts": (
            "unit/tensors/test_storage_layouts.py::test_published_vectors",
            "unit/tensors/test_storage_layouts.py::test_grouped_fractal_z_comes_back",
            "unit/dumps/device/test_device_file.py::test_every_layout_is_undone",
        ),
        "1 vectors of metrics": (
            "unit/metrics/catalogue/test_metric_values.py::test_vectors_of_the_vendor_tools",
            "unit/metrics/catalogue/test_metric_values.py::test_kl_vector_of_the_vendor_tools",
            "e2e/test_peer_torchair.py::test_every_cell_of_the_24_columns_is_that_of_msprobe",
        ),
        "2 all layouts and mixed versions": (
            "unit/matching/torchair/test_match_torchair.py::TestExecutions::test_layouts_mix",
            "unit/dumps/torchair/test_fx.py::test_steps_count_from_zero_in_every_layout",
            "unit/dumps/torchair/test_ge.py::test_earlier_layout_takes_the_rank_from_the_only_graph_text",
            "unit/dumps/torchair/test_ge.py::test_oldest_graph_text_takes_its_id_from_its_own_name",
        ),
        "2 tokens 0 and 10": (
            "unit/dumps/torchair/test_ge.py::test_tokens_are_ordered_as_numbers",
            "unit/dumps/torchair/test_fx.py::test_graphs_and_tokens_are_ordered_as_numbers",
        ),
        "2 eleven graphs": (
            "unit/dumps/torchair/test_ge.py::test_eleven_graphs_keep_their_ids_in_numeric_order",
            "unit/matching/torchair/test_match_torchair.py::TestExecutions::test_eleven_graphs_pair_by_id",
        ),
        "2 a graph compiled but never run": (
            "unit/dumps/torchair/test_ge.py::test_a_graph_that_was_compiled_but_never_ran_is_noted",
            "unit/matching/torchair/test_match_torchair.py::TestExecutions"
            "::test_a_graph_that_was_compiled_but_never_ran_disturbs_nothing",
        ),
        "2 a graph run twice": (
            "unit/dumps/torchair/test_ge.py::TestRuns::test_the_newest_of_two_runs_is_read_and_both_are_named",
            "unit/dumps/torchair/test_ge.py::TestRuns::test_of_several_graph_texts_the_fitting_one_counts",
        ),
        "2 several ranks": (
            "unit/dumps/torchair/test_ge.py::TestSelection::test_ranks_steps_and_graphs",
            "unit/dumps/torchair/test_ge.py::test_devices_of_the_earlier_layout_become_ranks_and_it_is_said",
            "unit/matching/torchair/test_match_torchair.py::TestExecutions::test_step_offset_and_pair_ranks",
        ),
        "3 surplus bytes": (
            "unit/dumps/device/test_device_file.py::test_every_dtype_comes_back",
            "unit/dumps/device/test_device_file.py::test_sections_lie_behind_the_tensors",
        ),
        "3 unknown fields": ("unit/dumps/device/test_device_file.py::test_unknown_fields_are_skipped",),
        "3 truncated and empty files": (
            "unit/dumps/device/test_device_file.py::test_every_cut_inside_the_header_is_found",
            "unit/dumps/device/test_device_file.py::test_tensors_before_a_cut_are_kept",
            "unit/dumps/device/test_device_file.py::test_empty_files_are_named_so",
            "e2e/test_bad_input.py::TestDeviceFiles::test_a_file_without_a_readable_header_costs_one_operator",
        ),
        "3 unknown element types": (
            "unit/dumps/device/test_device_file.py::test_unknown_type_and_layout_numbers_are_named",
            "unit/dumps/device/test_device_file.py::test_types_without_known_numbers_are_opaque_and_leave_the_others",
        ),
        "3 nine-field names": (
            "unit/dumps/torchair/test_ge.py::TestNames::test_all_forms_of_file_names",
            "unit/dumps/torchair/test_ge.py::TestNames"
            "::test_a_name_of_nine_fields_ends_with_task_type_context_thread_and_device",
            "unit/dumps/torchair/test_ge.py::TestLaterForms::test_nine_fields_of_an_unsliced_operator_are_ordinary",
        ),
        "3 hashed names": (
            "unit/dumps/torchair/test_ge.py::TestNames::test_hashed_names_are_resolved_by_the_mapping",
            "unit/dumps/torchair/test_ge.py::TestNames::test_every_folder_has_a_mapping_of_its_own",
            "unit/dumps/torchair/test_fx.py::TestOddFiles::test_hashed_names_are_resolved_or_reported",
            "unit/dumps/reduced/test_reduced_tensors.py::TestDeviceFiles::test_hashed_names_are_resolved",
        ),
        "3 an operator dumped twice": (
            "unit/dumps/torchair/test_ge.py::TestDuplicates::test_the_rule_chooses_and_every_other_file_is_listed",
        ),
        "4 colons, braces, quotes and nested graphs in a graph text": (
            "unit/dumps/graph/test_graph_text.py::test_values_with_colons_and_braces_lose_nothing",
            "unit/dumps/graph/test_graph_text.py::test_escapes_and_adjacent_strings_are_resolved",
            "unit/dumps/graph/test_graph_text.py::test_nested_graphs_and_other_top_level_blocks_do_not_count",
        ),
        "5 twelve inputs of a cat": (
            "unit/dumps/torchair/test_fx.py::test_twelve_list_items_are_ordered_as_numbers",
            "unit/matching/torchair/test_match_torchair.py::TestRules::test_twelve_inputs_of_a_cat_pair_in_numeric_order",
        ),
        "5 scalars, None, texts and lists among the arguments": (
            "unit/dumps/torchair/test_fx.py::test_what_is_no_tensor_is_opaque_and_never_unpickled",
            "unit/matching/torchair/test_match_torchair.py::TestGaps::test_what_is_no_tensor_is_explained",
            "unit/matching/torchair/test_match_torchair.py::TestRules::test_a_permutation_never_pairs_with_the_two_axes_of_a_transposition",
        ),
        "5 operators of several outputs": (
            "unit/matching/torchair/test_match_torchair.py::TestRules::test_outputs_of_several_numbers",
        ),
        "6 an input that enters a fused operator in the middle": (
            "unit/matching/torchair/test_match_torchair.py::TestRules"
            "::test_a_fused_operator_gives_its_last_output_and_takes_inputs_in_the_middle",
            "unit/dumps/torchair/test_ge.py::TestFused::test_an_input_that_enters_in_the_middle_gets_its_edge",
        ),
        "6 fused parts that the golden side lacks": (
            "unit/matching/torchair/test_match_torchair.py::TestRules::test_fused_parts_that_the_golden_side_lacks_are_missing",
            "unit/matching/torchair/test_ge_pairs.py::TestGoldenPartsWithoutFile"
            "::test_no_part_with_a_file_is_a_reason_and_no_crash",
        ),
        "6 three fused parts": ("unit/matching/torchair/test_match_torchair.py::TestRules::test_three_fused_parts",),
        "6 names that are prefixes of each other": (
            "unit/matching/torchair/test_match_torchair.py::TestRules::test_names_that_are_prefixes_of_each_other",
        ),
        "7 NaN and infinities, equal and unequal": (
            "unit/metrics/catalogue/test_metric_values.py::test_special_values_are_left_out_and_the_rest_is_measured",
            "unit/analysis/policies/test_policies.py::test_torchair_says_where_nan_differs",
            "unit/analysis/policies/test_policies.py::test_torchair_passes_a_mask_of_infinities_on_both_sides",
        ),
        "7 a golden tensor of zeros": (
            "unit/metrics/catalogue/test_metric_values.py::test_zero_golden_is_infinite_strictly_and_counts_by_eps_otherwise",
        ),
        "7 empty tensors": (
            "unit/dumps/device/test_device_file.py::test_empty_tensors_have_no_elements",
            "unit/analysis/policies/test_policies.py::test_empty_tensors_pass",
        ),
        "7 other element counts": (
            "unit/matching/torchair/test_match_torchair.py::TestRules::test_different_element_counts_keep_the_pair_and_say_so",
            "unit/reports/tables/torchair/test_layout.py::test_other_element_counts_are_unmatched_and_fail",
        ),
        "7 int8 on one side": (
            "unit/analysis/policies/test_policies.py::test_torchair_does_not_judge_a_quantised_side",
            "unit/analysis/model/test_deviation.py::test_a_side_whose_scale_is_unknown_is_no_distance_away",
        ),
        "8 the reducer while files grow": (
            "unit/transform/reduce/test_reduce_folders.py::test_a_growing_file_is_reduced_when_it_is_whole",
            "unit/transform/reduce/test_reduce_file.py::test_a_part_of_a_device_file_is_left_for_later",
            "unit/files/test_folder_changes.py::test_a_file_waits_until_it_rests",
        ),
        "8 the reducer killed in the middle, and run again": (
            "e2e/test_reduce_killed.py::test_killed_at_random_points_nothing_is_lost_and_a_second_run_completes",
            "unit/transform/reduce/test_reduce_folders.py::test_a_second_run_does_nothing_again",
        ),
        "9 more than 2^31 elements": (
            "unit/measure/test_huge_tensors.py::test_blocks_beyond_two_gib_are_read_where_they_lie",
            "unit/measure/test_huge_tensors.py::test_a_private_layout_of_more_than_2_31_elements_is_gathered",
            "unit/measure/test_huge_tensors.py"
            "::test_the_last_task_of_a_huge_pair_finds_its_error_with_the_memory_of_a_block",
            "unit/elements/test_joined_blocks.py::test_memory_is_that_of_the_block_and_not_of_the_tensor",
        ),
        "containers: slices of one operator": (
            "unit/dumps/device/test_joined_slices.py::TestManualSlices::test_outputs_join_along_the_cut_axis",
            "unit/dumps/device/test_joined_slices.py::TestAutomaticSlices::test_outputs_join_by_the_ranges_of_the_threads",
            "unit/dumps/device/test_joined_slices.py::TestAutomaticSlices"
            "::test_a_header_that_describes_the_whole_tensor_takes_the_shape_of_its_thread",
        ),
        "containers: nano dumps": (
            "unit/dumps/device/test_nano_dump.py::test_hand_made_bytes_read_field_by_field",
            "unit/dumps/device/test_nano_dump.py::test_the_second_numbering_of_types_is_understood",
        ),
        "containers: single messages": ("unit/dumps/device/test_device_file.py::test_old_bare_message_is_read",),
    }
)


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests of a file, with the class before those of classes."""
    found: set[str] = set()
    for node in ast.parse((TESTS / file).read_text()).body:
        members = [(f"{node.name}::", item) for item in node.body] if isinstance(node, ast.ClassDef) else [("", node)]
        found.update(f"{prefix}{item.name}" for prefix, item in members if isinstance(item, ast.FunctionDef))
    return frozenset(found)


@pytest.mark.parametrize("item", WHERE)
def test_every_test_that_answers_an_item_exists(item):
    for place in WHERE[item]:
        file, _, name = place.partition("::")
        assert name in names_in(file), f"{file} has no test {name}; say in `WHERE` what answers {item!r} now"


def test_every_item_has_an_answer():
    # Item 10 is answered below.
    assert {item.partition(" ")[0] for item in WHERE} >= {str(number) for number in range(1, 10)}


@pytest.fixture
def dump(tmp_path) -> GeDump:
    return GeDump(tmp_path / "msprobe_ge_dump")


def match(dump: GeDump):
    root = dump.root.parent
    target = read_torchair_ge(dump.root, side="target")
    pairs = match_torchair(target, read_torchair_fx(root, side="golden"))
    check_complete(pairs)
    return pairs


class TestItem5:
    def test_a_tensor_that_only_a_keyword_gives_is_a_gap_and_no_wrong_pair(self, dump):
        shape = (2, 3)
        dump.graph(
            [
                Op("x", "Data", (), [(None, shape)]),
                Op("mask", "Data", (), [(None, shape)]),
                Op("Sdpa", "Sdpa", ("x:0", "mask:0"), [("sdpa-npu.sdpa.default.OUTPUT.0", shape)]),
            ]
        )
        write_device_op(dump.token(0), "Sdpa", "Sdpa", at=1, inputs=[X, Y], outputs=[Z])
        # FX writes positional arguments only: `mask` is not among them.
        write_fx_node(fx_token(dump.root.parent, 0), "sdpa-npu.sdpa.default", at=1, inputs=[X], outputs=[Z])
        pairs = match(dump)
        assert golden_of(pairs) == {
            "Sdpa.input.0": "sdpa.input.0",
            "Sdpa.input.1": None,
            "Sdpa.output.0": "sdpa.output.0",
        }
        assert reasons(pairs) == {"Sdpa.input.1": "count_mismatch"}

    def test_an_alias_that_takes_over_the_name_of_a_tensor_pairs_with_it(self, dump):
        shape = (2, 3)
        ops = mul_add_relu()
        # `relu_` writes in place and a later alias names its result: the last node wins in the graph text.
        ops[5] = Op("Relu", "Relu", ("Add:0",), [("alias-aten.alias.default.OUTPUT.0", shape)])
        dump.graph(ops)
        fx = fx_token(dump.root.parent, 0)
        write_mul_add_relu(dump.token(0), fx)
        result = np.maximum(X * Y + Z, 0)
        write_fx_node(fx, "alias-aten.alias.default", at=4, inputs=[result], outputs=[result])
        pairs = match(dump)
        assert golden_of(pairs)["Relu.output.0"] == "alias.output.0"
        assert missing(pairs) == []


class TestValuesThatTheGraphTextDoesNotFeed:
    """The device read them, FX wrote them, and no edge says so: what differs there must not go unseen."""

    @pytest.mark.parametrize(
        ("device", "argument"),
        [(np.int64(7), np.int64(3)), (np.array([1, 2, 3, 9]), np.array([1, 2, 3, 4])), (np.float32(0.5), 0.25)],
    )
    def test_one_that_differs_is_the_origin(self, dump, probe_flow, device, argument):
        key = "op-aten.op.default"
        dump.graph([Op("x", "Data", (), [(None, X.shape)]), Op("O", "Op", ("x:0",), [(f"{key}.OUTPUT.0", X.shape)])])
        given = DumpTensor(np.asarray(device), str(np.asarray(device).dtype))
        write_device_op(dump.token(0), "Op", "O", at=1, inputs=[X, given], outputs=[X])
        write_fx_node(fx_token(dump.root.parent, 0), key, at=1, inputs=[X, argument, 2.0], outputs=[X])
        golden = dump.root.parent / "msprobe_fx_dump"
        done = probe_flow("run", TORCHAIR, "--set", f"target={dump.root}", "--set", f"golden={golden}")
        origin = first_divergence(done.record)
        assert (done.code, origin["node"], origin["direction"], origin["index"]) == (1, "O", "input", "1")


class TestContainersInOneDump:
    """Files of every container side by side in one step: each operator has its tensors, whatever holds them."""

    @pytest.fixture
    def mixed(self, dump):
        dump.graph(mul_add_relu())
        fx = fx_token(dump.root.parent, 0)
        write_mul_add_relu(dump.token(0), fx)
        product, total = X * Y, X * Y + Z
        for path in dump.token(0).iterdir():
            tensors = {
                "Mul": ([X, Y], [product]),
                "Add": ([product, Z], [total]),
                "Relu": ([total], [np.maximum(total, 0)]),
            }[path.name.partition(".")[0]]
            inputs, outputs = ([DumpTensor(data, "float32") for data in side] for side in tensors)
            if path.name.startswith("Mul."):
                wrapped = ([nano_writer.NanoTensor(tensor) for tensor in side] for side in (inputs, outputs))
                path.write_bytes(nano_writer.nano_bytes(*wrapped))
            elif path.name.startswith("Add."):
                path.write_bytes(dump_bytes(op_name="Add", inputs=inputs, outputs=outputs, inline=True))
            else:
                path.rename(path.with_name("99887766"))
                (path.parent / "mapping.csv").write_text(f"99887766,{path.name}\n")
        return dump

    def test_nano_single_message_and_hashed_files_pair_like_any_other(self, mixed):
        catalog = read_torchair_ge(mixed.root, side="target")
        assert catalog.problems == ()
        assert [key.name for key in catalog.nodes] == ["Mul", "Add", "Relu"]
        assert [node.order for node in catalog.nodes.values()] == [FIRST_US + at for at in (1, 2, 3)]
        pairs = match(mixed)
        assert set(golden_of(pairs)) == {
            "Mul.input.0", "Mul.input.1", "Mul.output.0", "Add.input.0", "Add.input.1", "Add.output.0",
            "Relu.input.0", "Relu.output.0",
        }  # fmt: skip
        assert missing(pairs) == []


class TestStackInfo:
    def test_the_table_names_the_line_that_a_python_text_of_the_graph_gives(self, probe_flow, dumps, tmp_path):
        before = probe_flow(
            "compare", "-m", "torchair", "-tp", dumps.target, "-gp", dumps.golden, "-o", "a", output=None
        )
        name = "dynamo_original_graph_1_rank_0_pid_9_ts_20260101000000000009.py"
        (dumps.target / name).write_text(
            '# File "model.py", line 3, in forward    return x * y\n'
            "## FX Code: mul = torch.ops.aten.mul.Tensor(x, y)\n"
            'Mul_0 = ge.Mul(x_0, y_0, node_name="Mul")\n'
        )
        probe_flow("compare", "-m", "torchair", "-tp", dumps.target, "-gp", dumps.golden, "-o", "b", output=None)
        assert before.code == 0
        assert set(stack_infos(tmp_path / "a").values()) == {"N/A"}
        found = stack_infos(tmp_path / "b")
        assert found["Mul.Mul"] == 'File "model.py", line 3, in forward return x * y'
        assert {found[name] for name in found if name != "Mul.Mul"} == {"N/A"}


def stack_infos(folder: Path) -> dict[str, str]:
    (table,) = folder.glob("torchair_result_*.csv")
    with table.open(newline="", encoding="utf-8") as file:
        return {row["API Name"]: row["Stack Info"] for row in csv.DictReader(file)}


class TestItem10:
    """Open points are stated, not guessed in silence."""

    @pytest.mark.parametrize(
        "words",
        ["`DT_INT4`", "`DT_INT2`", "`FLOAT4`", "`FLOAT6`", "newest header fields", "Grouped `FRACTAL_Z`",
         "graph fusion", "`model_id`", "padding"],
    )  # fmt: skip
    def test_the_page_on_device_files_names_every_open_point(self, words):
        text = (DOCS / "reference" / "device-files.md").read_text()
        _, heading, rest = text.partition("## What is not established")
        assert heading
        assert words in rest.partition("\n## ")[0]
