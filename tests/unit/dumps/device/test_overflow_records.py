"""Overflow records: both layouts, all units, and what is wrong with others."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_writer import OmFolder, op_debug_record, op_debug_table, tensor

from probe_flow.dumps.device.overflow_records import op_debug_json, parse_op_debug, read_op_debug
from probe_flow.errors import CODES, FormatError

CORE = {
    "model_id": 514, "stream_id": 563, "task_id": 57, "task_type": 1, "context_id": 9, "thread_id": 2,
    "pc_start": 0x1008005B0000, "para_base": 0x100800297000, "core_id": 3, "block_id": 4,
}  # fmt: skip


def test_a_record_of_a_core_reads_from_hand_made_bytes(tmp_path):
    content = struct.pack("<6I", 0x5A5A5A5A, 0, 1, 0, 0, 88) + struct.pack("<11Q", *CORE.values(), 32)
    (record,) = read_op_debug(OmFolder(tmp_path).op_debug(content, at=1))

    assert (record.version, record.is_valid, record.data_bytes) == (0, True, 88)
    (unit,) = record.units
    assert (unit.unit, dict(unit.fields)) == ("AIC", CORE | {"status": 32})
    assert (unit.task, unit.context, unit.has_overflow) == ((57, 563), (9, 2), True)


def test_the_json_is_that_of_the_device_tools():
    record = parse_op_debug(op_debug_record("AIV", CORE, status=[1, 2, 3, 4], version=1), "f")

    assert json.loads(op_debug_json(record)) == {
        "magic": "0x5a5a5a5a",
        "version": 1,
        "acc_list": {
            "valid": 1,
            "acc_type": "AIV",
            "rsv": 0,
            "data_len": 112,
            "data": CORE | {"pc_start": "0x1008005b0000", "para_base": "0x100800297000", "status": [1, 2, 3, 4]},
        },
    }


@pytest.mark.parametrize(
    ("unit", "extra", "size"),
    [
        ("SDMA", {"context_id": 65535, "thread_id": 65535, "src_addr": 16, "dst_addr": 17, "channel_id": 2}, 80),
        ("AICPU", {"context_id": 65535, "cpu_id": 5, "thread_id": 65535}, 64),
    ],
)
def test_records_of_other_units_have_fields_of_their_own(unit, extra, size):
    fields = {"model_id": 1, "stream_id": 2, "task_id": 3, "task_type": 4, **extra, "status": 6}
    record = parse_op_debug(op_debug_record(unit, fields), "f")

    assert record.data_bytes == size
    assert (record.units[0].unit, dict(record.units[0].fields)) == (unit, fields)
    assert record.units[0].context == (None, None)
    data = json.loads(op_debug_json(record))["acc_list"]["data"]
    assert data["status"] == 6
    assert [data.get(name) for name in ("src_addr", "dst_addr")] == (["0x10", "0x11"] if unit == "SDMA" else [None] * 2)


def test_the_old_table_reads_unit_by_unit():
    infos = {
        part: {"model_id": at, "stream_id": at + 1, "task_id": at + 2, "task_type": 0, "pc_start": 255, "para_base": 4}
        for part, at in (("dha", 10), ("l2", 20), ("ai_core", 30))
    }
    record = parse_op_debug(op_debug_table(infos, dha_status=0, l2_status=7, ai_core_status=(4096, 5, 32)), "f")

    assert [unit.has_overflow for unit in record.units] == [False, True, True]
    assert [unit.task for unit in record.units] == [(12, 11), (22, 21), (32, 31)]
    found = json.loads(op_debug_json(record))
    assert list(found) == ["DHA Atomic Add", "L2 Atomic Add", "AI Core"]
    assert found["L2 Atomic Add"] == {
        "model_id": 20, "stream_id": 21, "task_id": 22, "task_type": 0, "pc_start": "0xff", "para_base": "0x4",
        "status": 7,
    }  # fmt: skip
    expected = {"kernel_code": "0x1000", "block_idx": 5, "status": 32}
    assert {name: found["AI Core"][name] for name in expected} == expected


def test_every_output_is_a_record_and_surplus_bytes_are_tolerated(tmp_path):
    first = op_debug_record("AIC", CORE) + b"\xab" * 40
    second = op_debug_record("AICPU", {"task_id": 8}, valid=0)
    outputs = [tensor(np.frombuffer(content, np.uint8), "uint8") for content in (first, second)]
    path = OmFolder(tmp_path).op("Opdebug", "Node_OpDebug", at=1, outputs=outputs)

    records = read_op_debug(path)
    assert [record.units[0].unit for record in records] == ["AIC", "AICPU"]
    assert [record.is_valid for record in records] == [True, False]
    assert records[1].units[0].task == (8, 0)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it has no output"),
        (b"\0" * 12, "12 bytes neither begin with 0x5a5a5a5a nor are 2048"),
        (b"\0" * 2049, "neither begin"),
        (b"\x5a" * 4 + b"\0" * 8, "ends after 12 bytes, its head has 24"),
        (struct.pack("<6I", 0x5A5A5A5A, 0, 1, 4, 0, 88) + b"\0" * 88, r"the unit 4 is unknown \(0 to 3 are\)"),
        (op_debug_record("AIC", CORE)[:-1], "need 88 bytes, 88 are announced, 87 are there"),
        (struct.pack("<6I", 0x5A5A5A5A, 1, 1, 0, 0, 88) + b"\0" * 112, "need 112 bytes, 88 are announced"),
    ],
)
def test_what_is_no_record_is_said(tmp_path, content, what):
    path = OmFolder(tmp_path).op_debug(content, at=1)
    with pytest.raises(FormatError, match=what) as caught:
        read_op_debug(path)

    problem = caught.value.diagnostic
    assert (problem.code, problem.path) == ("PF3310", str(path))
    assert problem.code in CODES
    assert problem.help


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_give_a_record_or_a_reason(content, has_magic):
    try:
        record = parse_op_debug((b"\x5a" * 4 if has_magic else b"") + content, "f")
    except FormatError as error:
        answer = error.diagnostic.code, error.diagnostic.path
    else:
        answer = "a record", type(json.loads(op_debug_json(record)))
    assert answer in (("PF3310", "f"), ("a record", dict))
