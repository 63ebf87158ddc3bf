"""Values for arguments: the same in every process, within the recorded range, or the files of the dump."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from probe_flow.apis.calls import TensorSpec, UnusableError
from probe_flow.apis.values import ms_seed42, of_files, per_slot

PLACE = "input.0"


def spec(dtype: str, low: object, high: object, *shape: int) -> TensorSpec:
    return TensorSpec(dtype, shape, low, high)


def made(dtype: str, low: object, high: object, *shape: int) -> Any:
    return per_slot("Mint.add.0")(spec(dtype, low, high, *shape), PLACE)


@pytest.mark.parametrize(
    ("api", "place", "wanted", "expected"),
    [
        ("Mint.add.0", PLACE, spec("float32", -1.0, 1.0, 4), [-1.0, 0.09724630948993185, -0.119555287948937, 1.0]),
        ("Mint.add.0", "input.1", spec("float32", -1.0, 1.0, 4), [-1.0, -0.009438289748852524, 0.35739863991617593, 1]),
        ("Mint.add.1", PLACE, spec("float32", -1.0, 1.0, 4), [-1.0, 0.6114831538720236, -0.7889075176456357, 1.0]),
        ("Mint.add.0", PLACE, spec("int64", 0, 9, 6), [8, 8, 4, 5, 0, 4]),
    ],
)
def test_values_are_the_same_in_every_process_and_differ_by_call_and_place(
    api: str, place: str, wanted: TensorSpec, expected: list[float]
) -> None:
    assert per_slot(api)(wanted, place).tolist() == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_lie_between_the_extremes_which_are_there(dtype: str) -> None:
    found = made(dtype, -3.0, 5, 40, 50)
    assert (found.shape, found.dtype, found.min(), found.max()) == ((40, 50), np.float64, -3.0, 5.0)
    assert (found.flat[0], found.flat[-1]) == (-3.0, 5.0)
    assert found.mean() == pytest.approx(1.0, abs=0.2)
    assert np.unique(found).size == found.size


def test_a_range_that_float64_cannot_span_is_filled_all_the_same() -> None:
    found = made("float64", -1.7e308, 1.7e308, 1000)
    assert np.isfinite(found).all()
    assert found.min() == -1.7e308
    assert np.count_nonzero(np.abs(found) > 1e308) > 100


def test_extremes_in_the_wrong_order_and_one_value_for_both() -> None:
    assert made("float32", 2.0, -1.0, 9).min() == -1.0
    assert set(made("float32", 0.25, 0.25, 9).tolist()) == {0.25}
    assert made("float32", 0, 7.0).tolist() == 7.0, "a scalar is its largest"
    assert made("float32", 0.0, 7.0).shape == ()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("int16", -3, 3),
        ("int64", -(2**63), 2**63 - 1),
        ("uint64", 0, 2**64 - 1),
        ("int32", 5.0, 9.0),
        ("int4", -8, 7),
    ],
)
def test_integers_reach_both_extremes(dtype: str, low: float, high: float) -> None:
    found = made(dtype, low, high, 5000)
    assert found.dtype == ("int8" if dtype == "int4" else dtype)
    assert found.min() >= low
    assert found.max() <= high
    if high - low < 300:
        assert set(found.tolist()) == set(range(int(low), int(high) + 1))
    else:
        assert float(found.max()) - float(found.min()) > 0.99 * (high - low)


def test_integers_beyond_their_type_are_cut_to_it() -> None:
    assert set(made("int8", 1000, 2000, 50).tolist()) == {127}
    assert made("uint8", -5, 300, 5000).min() == 0


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(False, False, {False}), (True, True, {True}), (False, True, {False, True})]
)
def test_booleans_are_as_the_extremes_allow(low: bool, high: bool, expected: set[bool]) -> None:
    found = made("bool", low, high, 64)
    assert found.dtype == bool
    assert set(found.tolist()) == expected
    assert set(made("bool", float(low), float(high), 64).tolist()) == expected


@pytest.mark.parametrize(
    ("low", "high", "planted"),
    [
        (-math.inf, math.inf, {0: -math.inf, -2: math.inf}),
        (-1.0, math.inf, {-1: math.inf}),
        (-math.inf, 1.0, {0: -math.inf}),
        (math.nan, math.nan, {-1: math.nan}),
        (-math.inf, math.nan, {0: -math.inf, -2: math.nan}),
        (0.0, math.nan, {-1: math.nan}),
        (math.inf, math.inf, {-1: math.inf}),
    ],
)
def test_an_extreme_that_is_not_finite_takes_one_place_of_finite_values(
    low: float, high: float, planted: dict[int, float]
) -> None:
    found = made("float32", low, high, 100).astype(np.float32)
    for place, value in planted.items():
        assert str(found[place]) == str(np.float32(value))
    assert np.count_nonzero(~np.isfinite(found)) == len(planted)


@pytest.mark.parametrize(
    ("dtype", "largest"), [("float16", 65504.0), ("bfloat16", float(ml_dtypes.finfo("bfloat16").max))]
)
def test_the_other_values_stay_finite_in_the_type_of_the_tensor(dtype: str, largest: float) -> None:
    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    for low, high in ((0.9 * largest, math.inf), (-math.inf, -0.9 * largest), (-math.inf, math.inf)):
        with np.errstate(over="ignore"):
            found = made(dtype, low, high, 5000).astype(kind).astype(np.float64)
        assert np.count_nonzero(~np.isfinite(found)) == sum(map(math.isinf, (low, high)))


def test_finite_elements_lie_within_their_own_extremes_where_the_dump_records_them() -> None:
    spec = TensorSpec("float32", (100,), -math.inf, math.nan, finite_low=-2.0, finite_high=7)
    found = per_slot("Torch.a.0")(spec, "input.0")
    assert found[0] == -math.inf
    assert math.isnan(found[-2])
    rest = found[np.isfinite(found)]
    assert (rest.size, rest.max()) == (98, 7.0)
    assert rest.min() >= -2.0


def test_a_scalar_with_an_infinite_extreme_is_infinite() -> None:
    assert made("float32", -math.inf, 3.0).tolist() == -math.inf
    assert made("float32", 0.0, math.inf, 1).tolist() == [math.inf]


def test_complex_numbers_have_their_type() -> None:
    found = made("complex64", 0.0, 1.0, 8)
    assert found.dtype == np.complex64


def test_an_empty_tensor_needs_no_range_and_any_other_does() -> None:
    assert made("bfloat16", None, None, 2, 0).shape == (2, 0)
    for low, high in ((None, 1.0), (1.0, None), ("0", 1), ([0], 1)):
        with pytest.raises(UnusableError, match=r"no range of values of `input\.0`"):
            made("float32", low, high, 2)
    with pytest.raises(UnusableError, match="not that of integers"):
        made("int32", 0, math.inf, 2)


def test_an_empty_tensor_needs_no_file_and_any_other_does(tmp_path: Path) -> None:
    found = of_files(str(tmp_path))(TensorSpec("int32", (0, 3), None, None), "input.0")
    assert (found.shape, found.dtype) == ((0, 3), np.int32)
    with pytest.raises(UnusableError, match=r"the dump has no file of `input\.0`"):
        of_files(str(tmp_path))(TensorSpec("int32", (1, 3), 0, 1), "input.0")


# msprobe's own way with a MindSpore tensor, written out: the global generator, seeded before each tensor.


def as_msprobe(dtype: str, low: float, high: float, shape: tuple[int, ...]) -> Any:
    np.random.seed(42)
    if dtype == "bool":
        return np.random.rand(*shape) > 0.5
    kept = {"bfloat16": "float64", "int4": "float64"}.get(dtype, dtype)
    return np.random.uniform(low, high, shape).astype(kept)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "shape"),
    [
        ("float32", -1.5, 2.5, (3, 4)),
        ("float16", 0, 1, (7,)),
        ("bfloat16", -1.0, 1.0, (2, 2)),
        ("float64", 5.0, 5.0, (3,)),
        ("int64", 0, 10, (50,)),
        ("int8", -3, 3, (50,)),
        ("int32", 4, 4, (3,)),
        ("bool", False, False, (20,)),
        ("float32", 0.0, 1.0, ()),
        ("float32", 0.0, 1.0, (0, 3)),
    ],
)
def test_msprobes_generator(dtype: str, low: float, high: float, shape: tuple[int, ...]) -> None:
    state = np.random.get_state()
    try:
        expected = as_msprobe(dtype, low, high, shape)
    finally:
        np.random.set_state(state)
    found = ms_seed42(TensorSpec(dtype, shape, low, high), PLACE)
    assert found.dtype == expected.dtype
    assert found.tolist() == np.asarray(expected).tolist()
    assert found.shape == shape


def test_msprobes_generator_leaves_the_global_one_as_it_is() -> None:
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    ms_seed42(spec("float32", 0.0, 1.0, 5), PLACE)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


def test_where_msprobes_generator_fails_there_is_a_reason() -> None:
    for low, high in ((-math.inf, math.inf), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(UnusableError, match=r"no values between .* for `input\.0`"):
            ms_seed42(spec("float32", low, high, 3), PLACE)
    with pytest.raises(UnusableError, match="no range"):
        ms_seed42(spec("float32", None, None, 0), PLACE)


class TestFiles:
    """The dump's own files."""

    def load(self, folder: Path, file: str | None, *shape: int) -> Any:
        return of_files(str(folder))(TensorSpec("float32", shape, file=file), "output.1")

    def test_are_loaded_as_they_are(self, tmp_path: Path) -> None:
        values = np.array([[1.5, np.nan], [np.inf, -0.0]], np.float32)
        np.save(tmp_path / "a.npy", values)
        found = self.load(tmp_path, "a.npy", 2, 2)
        assert found.dtype == np.float32
        assert found.tobytes() == values.tobytes()

    @pytest.mark.parametrize("name", ["../a.npy", "sub/../../a.npy", "{parent}/a.npy", "link.npy"])
    def test_outside_of_the_folder_are_refused(self, name: str, tmp_path: Path) -> None:
        folder = tmp_path / "dump_tensor_data"
        (folder / "sub").mkdir(parents=True)
        np.save(tmp_path / "a.npy", np.ones(2, np.float32))
        (folder / "link.npy").symlink_to(tmp_path / "a.npy")
        with pytest.raises(UnusableError, match=r"of `output\.1` lies outside the dump's folder"):
            self.load(folder, name.format(parent=tmp_path), 2)

    def test_a_link_to_the_folder_itself_is_none_outside(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        np.save(tmp_path / "real" / "a.npy", np.ones(2, np.float32))
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert self.load(tmp_path / "link", "a.npy", 2).tolist() == [1, 1]

    def test_that_cannot_be_used_have_a_reason(self, tmp_path: Path) -> None:
        np.save(tmp_path / "whole.npy", np.arange(100, dtype=np.float32))
        whole = (tmp_path / "whole.npy").read_bytes()
        for length in (0, 5, 60, len(whole) - 1):
            (tmp_path / "cut.npy").write_bytes(whole[:length])
            with pytest.raises(UnusableError, match=r"`cut\.npy` of `output\.1` cannot be read"):
                self.load(tmp_path, "cut.npy", 100)
        with pytest.raises(UnusableError, match=r"has shape \(100,\), the dump says \(10, 10\)"):
            self.load(tmp_path, "whole.npy", 10, 10)
        with pytest.raises(UnusableError, match="is not there, or no file"):
            self.load(tmp_path, "lost.npy", 100)
        with pytest.raises(UnusableError, match=r"no file of `output\.1`"):
            self.load(tmp_path, None, 100)

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        np.save(tmp_path / "object.npy", np.array([Touch(tmp_path / "run")], object), allow_pickle=True)
        (tmp_path / "pickle.npy").write_bytes(pickle.dumps(Touch(tmp_path / "run")))
        for name in ("object.npy", "pickle.npy"):
            with pytest.raises(UnusableError, match="cannot be read"):
                self.load(tmp_path, name, 1)
        assert not (tmp_path / "run").exists()


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)
