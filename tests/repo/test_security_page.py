"""docs/explanation/security.md: every promise of the page has tests, which are named here."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "security.md"
TESTS = ROOT / "tests"

_BULLET = re.compile(r"^- (.+(?:\n  .+)*)", re.MULTILINE)


# How each promise begins: who rewords one looks at its tests again.
PROMISES: dict[str, tuple[str, ...]] = {
    "No object of a dump is unpickled": (
        "unit/files/arrays/test_npy.py::test_pickles_are_never_loaded",
        "unit/dumps/offline/test_npy_folder.py::test_objects_are_never_unpickled",
        "unit/files/torch/test_torch_file.py::test_a_pickle_that_would_run_a_command_is_refused",
        "unit/files/torch/test_torch_file.py::test_any_opcodes_give_a_header_or_a_diagnosis",
        "unit/dumps/torchair/test_fx.py::test_what_is_no_tensor_is_opaque_and_never_unpickled",
        "unit/dumps/reduced/test_reduced_tensors.py::test_pickled_objects_are_never_unpickled",
        "unit/dumps/reduced/test_reduced_files.py::test_objects_are_not_unpickled",
        "cli/test_compare_offline_bad_input.py::test_pickled_objects_are_never_loaded",
        "cli/test_shell_command.py::test_pickled_objects_are_not_loaded",
        "e2e/test_bad_input.py::test_an_array_of_objects_is_never_unpickled",
    ),
    "What only torch can decode goes to `torch.load(weights_only=True)`": (
        "unit/files/torch/test_torch_load.py::test_torch_itself_refuses_what_we_would_have_refused",
    ),
    "No file outside a dump's folder is read": (
        "unit/dumps/dump_json/test_reader.py::test_links_out_of_the_dump_are_not_followed",
        "unit/dumps/dump_json/test_dump_json_tensors.py::test_links_out_of_the_dump_are_not_followed_and_those_within_are",
        "unit/dumps/dump_json/test_dump_json_tensors.py::test_a_link_in_place_of_a_tree_is_not_followed",
        "unit/dumps/dump_json/test_dump_json_tensors.py::test_a_bad_file_costs_its_tensor_and_says_why",
        "unit/dumps/mindspore_graph/test_mindspore_graph_bad_input.py::test_a_link_out_of_the_dump_is_not_followed",
        "unit/dumps/offline/test_om_dump.py::test_links_out_of_the_dump_are_not_followed",
        "unit/dumps/torchair/test_fx.py::test_links_out_of_the_dump_are_not_followed",
        "unit/dumps/torchair/test_ge.py::test_links_out_of_the_dump_are_not_followed",
        "unit/transform/parse/test_parse_folder.py::test_links_out_of_the_folder_are_not_followed",
        "e2e/test_bad_input.py::test_a_link_out_of_the_device_dump_is_not_followed",
        "e2e/test_bad_input.py::test_a_link_out_of_the_fx_dump_is_not_followed",
    ),
    "A size in a header is compared with the file before memory is taken for it": (
        "unit/files/arrays/test_npy.py::test_lying_header_length_is_found",
        "unit/dumps/device/test_device_file.py::test_lying_slot_size_leaves_the_tensors_before_it",
        "e2e/test_bad_input.py::test_a_shape_that_lies_costs_one_tensor_and_no_memory",
        "e2e/test_bad_input.py::test_a_damaged_array_costs_one_tensor_and_no_memory",
        "e2e/test_bad_input.py::test_sizes_that_lie_cost_no_memory",
    ),
    "A pipe or a folder in the place of a dumped file is a gap": (
        "unit/dumps/torchair/test_ge.py::test_a_pipe_does_not_block",
        "unit/dumps/rules/test_rule_file.py::test_folders_and_pipes_are_told",
        "unit/files/test_folder_changes.py::test_links_and_pipes_are_never_followed_and_are_counted",
        "e2e/test_bad_input.py::test_what_is_no_file_in_place_of_a_dump_file_leaves_a_gap",
    ),
    "Names from a dump are only text": (
        "browser/test_html_report.py::test_hostile_names_are_text_and_run_nothing",
        "unit/reports/html/test_page.py::test_hostile_texts_stay_inside_the_data",
        "unit/reports/html/test_assets.py::test_our_scripts_put_no_text_into_the_page_as_markup",
        "unit/record/test_cells.py::test_guarded_text_comes_back_from_a_csv_file_and_never_begins_like_a_formula",
        "unit/reports/tables/torchair/test_layout.py::test_names_and_reasons_never_become_formulas_and_come_back_whole",
        "unit/reports/test_xlsx.py::test_text_is_never_a_formula_or_a_link",
        "unit/reports/rank_merge/test_merge.py::test_merged_text_is_never_a_formula",
        "unit/reports/ci/test_annotations.py::test_no_name_can_begin_a_command_of_its_own",
        "unit/reports/ci/test_junit.py::test_text_is_escaped_as_the_standard_library_escapes_it",
        "e2e/test_bad_input.py::test_names_of_files_cannot_lead_out_or_steer_the_terminal",
    ),
    "Comparing leaves every file of a dump as it was": (
        "e2e/test_trust.py::test_a_run_writes_its_folder_and_the_cache_and_nothing_else",
    ),
    "Only `delete_source: true` of `reduce` deletes dumped files": (
        "unit/transform/reduce/test_reduce_file.py::test_the_dumped_file_goes_only_when_asked",
        "unit/transform/reduce/test_reduce_file.py::test_a_result_that_is_there_is_on_the_disk_before_the_dumped_file_goes",
        "unit/transform/reduce/test_reduce_file.py::test_a_full_disk_costs_the_result_and_keeps_the_dumped_file",
        "unit/transform/reduce/test_reduce_file.py::test_a_file_that_is_replaced_while_it_is_read_is_not_deleted",
    ),
    "The YAML itself is data": (
        "unit/files/yaml/test_positions.py::test_foreign_tags_are_errors_and_nothing_is_made_of_them",
        "unit/workflow/loading/test_loader.py::test_values_are_interpolated_once",
        "e2e/test_trust.py::test_an_interpolation_is_no_expression",
    ),
    "`validate` and `plan` import neither the code that `model:` names nor that of `functions:`": (
        "unit/stages/dump/test_model_run.py::test_validate_and_forecast_import_neither_the_model_nor_numpy",
        "e2e/test_trust.py::test_validate_and_plan_import_no_code_of_the_workflow",
        "e2e/test_packages.py::test_what_model_and_functions_name_is_imported_by_no_look",
    ),
    "`validate` and `plan` open no connection to the cluster of `executor.address`": (
        "unit/engine/schedulers/test_executor.py::test_a_cluster_at_an_address_is_planned_without_asking_it",
        "e2e/test_trust.py::test_validate_and_plan_open_no_connection",
    ),
    "A run writes into its own folder, the cache, and what its stages name": (
        "e2e/test_trust.py::test_a_run_writes_its_folder_and_the_cache_and_nothing_else",
        "unit/engine/run/test_output.py::test_a_folder_with_other_files_is_refused_and_left_alone",
        "unit/engine/run/test_output.py::test_a_workflow_name_cannot_leave_the_runs_folder",
        "unit/files/test_streamed_file.py::test_another_file_is_left_as_it_is",
    ),
    "A workflow cannot make a run delete files outside its folder": (
        "unit/engine/run/test_output.py::test_a_record_cannot_make_us_delete_files_elsewhere",
        "unit/transform/convert/test_convert_stages.py::test_folders_of_the_run_that_are_links_are_not_cleared",
    ),
    "`init --force` replaces a link": (
        "cli/test_light_commands.py::test_init_replaces_a_link_and_not_what_it_leads_to",
        "cli/test_light_commands.py::test_init_copies_no_sample_through_a_link",
        "cli/test_light_commands.py::test_init_replaces_links_among_the_samples",
    ),
    "A run opens no connection to another machine": ("e2e/test_trust.py::test_a_run_opens_no_connection",),
    "The code of a model runs in a child process": (
        "unit/dumpers/base/test_process.py::test_crash_in_native_code_tells_the_signal_and_the_last_words",
        "unit/dumpers/base/test_process.py::test_process_of_the_model_ends_with_a_parent_that_is_killed",
        "unit/dumpers/base/test_process.py::test_interrupted_run_ends_its_process",
    ),
    "`memory_limit` holds for that process alone": (
        "unit/dumpers/base/test_process.py::test_a_model_beyond_its_memory_fails_alone_and_the_limit_is_named",
    ),
    "`validate` and `plan` import the package of a stage that the workflow uses": (
        "e2e/test_packages.py::test_what_a_workflow_names_is_imported_where_its_options_need_it",
        "e2e/test_packages.py::test_a_metric_of_target_and_reference_is_that_of_its_package",
        "unit/metrics/catalogue/test_metric_registry.py::test_a_package_is_imported_for_its_own_metric_only",
    ),
    "No command imports a package of which the workflow names nothing": (
        "e2e/test_packages.py::test_no_command_imports_a_package_that_the_workflow_does_not_name",
        "e2e/test_packages.py::test_schema_imports_the_stages_of_packages_and_nothing_else",
    ),
    "A package that is broken costs nothing where it is not used": (
        "e2e/test_packages.py::test_a_broken_package_that_is_not_used_costs_nothing",
        "e2e/test_packages.py::test_a_broken_package_that_is_used_is_named",
        "e2e/test_packages.py::test_code_of_a_stage_that_raises_is_named",
    ),
    "A package that adds templates is not imported": (
        "unit/workflow/templates/test_shelf.py::test_files_of_a_package_are_templates_and_nothing_of_it_is_imported",
    ),
    "The worker processes of `--scheduler processes` exchange pickles with their parent over a pair of sockets": (
        "e2e/test_trust.py::test_worker_processes_are_reached_by_nobody_else",
    ),
    "Scratch files have names that nobody can guess": (
        "unit/transform/reduce/test_reduce_stop.py::test_the_file_for_workers_appears_with_the_signal_and_goes_with_the_stop",
        "unit/files/test_whole_files.py::test_a_link_at_the_temporary_name_is_not_followed",
        "unit/files/test_streamed_file.py::test_a_link_is_not_written_through",
        "unit/files/test_folder_lock.py::test_a_link_in_place_of_the_lock_is_not_followed",
    ),
    "Its scheduler and workers listen on the loopback only and speak TLS both ways": (
        "unit/engine/schedulers/test_distributed_trust.py::test_an_own_cluster_listens_on_the_loopback_only_and_answers_nobody_without_its_certificate",
    ),
    "It starts no HTTP server and no dashboard": (
        "unit/engine/schedulers/test_distributed_trust.py::test_an_own_cluster_listens_on_the_loopback_only_and_answers_nobody_without_its_certificate",
    ),
    "Its key is in no environment": (
        "unit/engine/schedulers/test_distributed_trust.py::test_the_key_of_an_own_cluster_is_nowhere_to_be_read",
    ),
    "Its working files lie in a folder that only you can enter": (
        "unit/engine/schedulers/test_distributed_trust.py::test_the_files_of_an_own_cluster_lie_in_a_private_folder_that_goes_with_it",
    ),
    "An address other than `tls://`, `localhost` included": (
        "unit/engine/schedulers/test_distributed_trust.py::test_an_address_without_proof_is_refused_before_any_connection",
        "unit/engine/schedulers/test_distributed_trust.py::test_the_payload_of_a_hostile_listener_does_not_run_without_consent",
        "e2e/test_trust.py::test_a_workflow_with_an_address_that_proves_nothing_is_refused",
    ),
    "A `tls://` address without certificates is refused": (
        "unit/engine/schedulers/test_distributed_trust.py::test_a_tls_address_needs_certificates",
        "unit/engine/schedulers/test_distributed_trust.py::test_certificates_that_cannot_be_used_are_named",
    ),
    "At a `tls://` address only a scheduler with a certificate of your authority is talked to": (
        "unit/engine/schedulers/test_distributed_trust.py::test_the_payload_of_a_listener_with_a_certificate_of_another_authority_does_not_run",
        "unit/engine/schedulers/test_distributed_trust.py::test_a_cluster_is_refused_by_one_whose_authority_it_does_not_know",
        "unit/engine/schedulers/test_distributed_trust.py::test_a_cluster_with_certificates_runs_every_batch",
    ),
    "What listens there and is no scheduler is refused within seconds": (
        "unit/engine/schedulers/test_distributed_trust.py::test_what_is_no_scheduler_is_refused",
    ),
    "With `trust: network` whoever answers at the address runs code as you": (
        "unit/engine/schedulers/test_distributed_trust.py::test_the_payload_of_a_hostile_listener_runs_where_the_network_is_trusted",
        "unit/engine/schedulers/test_distributed.py::test_a_cluster_at_an_address_runs_every_batch",
    ),
    "`show`, `diff` and the other commands that read a run's folder take it as data": (
        "cli/test_show_damaged.py::test_every_question_ends_with_an_answer_or_a_diagnostic",
        "e2e/test_trust.py::test_questions_to_a_hostile_run_folder_run_nothing",
    ),
    "`report.html` loads nothing from anywhere": (
        "unit/reports/html/test_assets.py::test_the_policy_allows_the_scripts_of_the_page_and_nothing_else",
        "unit/reports/html/test_assets.py::test_the_page_names_nothing_to_load",
    ),
    "Files of the cache are read as numbers and plain records; one that is damaged or of another": (
        "e2e/test_kept_catalogs.py::test_what_is_damaged_is_read_again_and_kept_anew",
        "unit/files/test_shards.py::test_a_shard_that_was_cut_off_is_a_reported_miss",
        "unit/files/test_shards.py::test_a_flipped_bit_of_a_text_is_found",
        "unit/files/test_shards.py::test_foreign_files_are_reported_and_the_others_are_used",
        "unit/files/test_shards.py::test_a_shard_that_declares_more_than_it_holds_counts_as_absent",
        "unit/elements/test_tensor_store.py::test_a_copy_that_declares_what_it_does_not_hold_is_made_anew",
    ),
    "Compiled code (`NUMBA_CACHE_DIR`": (
        "unit/metrics/backends/test_compiled_code.py::test_code_that_others_can_write_is_not_run_but_compiled_again",
        "unit/metrics/backends/test_compiled_code.py::test_code_of_another_user_is_not_run",
        "unit/metrics/backends/test_compiled_code.py::test_damaged_code_is_compiled_again",
    ),
    "A process that a run leaves behind": (
        "unit/metrics/backends/test_warm_up.py::test_no_compiler_is_started_where_it_is_unwanted_or_has_no_room",
        "unit/metrics/backends/test_warm_up.py::test_in_the_background_it_has_the_lowest_priority_and_an_end",
        "unit/metrics/backends/test_choice.py::test_auto_measures_by_numpy_and_has_compiled_later_what_is_not_there",
        "unit/engine/run/test_execute.py::test_what_a_run_lacked_is_compiled_when_it_ends",
    ),
}


def test_every_promise_of_the_page_has_tests_and_none_is_left_over() -> None:
    bullets = [" ".join(text.split()) for text in _BULLET.findall(PAGE.read_text(encoding="utf-8"))]
    known = [next((begin for begin in PROMISES if text.startswith(begin)), text) for text in bullets]
    assert sorted(known) == sorted(PROMISES)


@pytest.mark.parametrize("test", sorted({test for tests in PROMISES.values() for test in tests}))
def test_the_test_of_a_promise_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in _functions(TESTS / file)


@cache
def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
