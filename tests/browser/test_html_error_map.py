"""Maps of the errors of a tensor in a browser: what they show to eyes, the pointer, keys and screen readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from report_builders import comparison, measurement, row, tensor

from probe_flow.metrics.kernel.error_maps import ErrorMaps
from probe_flow.records import Comparison, Status, TensorDetail

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

MAP = ".error-maps > div:nth-of-type({}) .error-map"
"""The nth map of the panel."""

COLOURS = """
  const canvas = document.querySelector(arguments[0] + " canvas");
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const ctx = copy.getContext("2d", { willReadFrequently: true });
  ctx.drawImage(canvas, 0, 0);
  const at = ([x, y]) => ctx.getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data;
  return arguments[1].map((place) => [...at(place).slice(0, 3)].join());
"""
VARIABLE = """
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim();
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)].join();
"""
SIZE = """
  const { width, height } = document.querySelector(arguments[0] + " canvas").style;
  return [parseFloat(width), parseFloat(height)];
"""
POINT = """
  const canvas = document.querySelector(arguments[0] + " canvas");
  canvas.scrollIntoView({ block: "center", behavior: "instant" });
  const { left, top } = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: left + arguments[1], clientY: top + arguments[2] }));
"""
HEAD = 16


def looked(target: np.ndarray, golden: np.ndarray) -> Comparison:
    """A comparison whose one row has maps."""
    maps = ErrorMaps(target.shape)
    with np.errstate(invalid="ignore"):
        maps.add(0, target.reshape(-1), golden.reshape(-1), np.abs(target - golden).reshape(-1))
    detail = TensorDetail(0, (1.0,), (2.0,), (0.0, 1.0), (1,), 0, maps.maps())
    compared = row(
        0,
        status=Status.FAIL,
        target=tensor("Conv_1", shape=target.shape),
        golden=tensor("conv_fx", side="golden", shape=target.shape),
        measured=measurement({"relative_euclidean_distance": 0.5}, worst_index=0),
    )
    return comparison(compared, details={0: detail})


def channels() -> Comparison:
    """Five of eight channels are off by rounding, one by 2, all with a NaN in the last column of one row."""
    golden = np.zeros((1, 8, 6, 7))
    target = golden.copy()
    target[0, :5] += 1e-4
    target[0, 5] = 2.0
    target[0, 7, 3, 6] = np.nan
    return looked(target, golden)


def opened(open_report: Open, given: Comparison, **more: Any) -> Any:
    page = open_report(given, **more)
    page.click("#table .tabulator-row [tabulator-field=name]")
    if page.js("return document.getElementById('panel').hidden"):
        page.keys("\ue007")  # Enter
    page.wait("!document.getElementById('panel').hidden")
    return page


def middles(page: Any, number: int, cells: list[tuple[int, int]], rows: int, columns: int) -> list[list[float]]:
    """Places of cells on a canvas: it ends where its last cell does."""
    wide, tall = page.js(SIZE, MAP.format(number))
    height = (tall - HEAD) / rows
    width = next(each for each in range(22, 3, -1) if 430 // columns >= each)
    return [[wide - (columns - column - 0.5) * width, HEAD + (row + 0.5) * height] for row, column in cells]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wrong_channel_is_a_line_in_the_colour_of_large_errors(open_report: Open, scheme: str) -> None:
    page = opened(open_report, channels(), scheme=scheme)
    places = middles(page, 1, [(5, 0), (5, 41), (0, 3), (6, 3), (7, 27)], 8, 42)
    shades = [page.js(VARIABLE, f"--{name}") for name in ("size-5", "size-5", "size-1", "size-0", "nan")]
    assert page.js(COLOURS, MAP.format(1), places) == shades
    assert page.js("return document.querySelectorAll('.error-map').length") == 2


def test_words_say_what_the_colours_show(open_report: Open) -> None:
    page = opened(open_report, channels())
    text = page.text(".error-maps")
    assert (
        "Axis 1 (8) down, axes 2, 3 (6 \u00d7 7) across. A cell is one place, coloured by the largest absolute error."
        in text
    )
    assert "Axis 2 (6) down, axis 3 (7) across." in text
    assert "over axis 1 (8)" in text
    assert "The largest error is 2" in text
    assert "Errors above a tenth of the largest are in 1 of 8 rows (axis 1 at 5) and all 42 columns." in text
    assert "NaN or infinities disagree in 1 of 8 rows (axis 1 at 7) and 1 of 42 columns (axes 2, 3 at (3, 6))." in text
    label = page.js("return document.querySelector(arguments[0]).ariaLabel", MAP.format(1))
    assert label.startswith("Map of errors, 8 by 42 cells.")
    assert "1 of 8 rows (axis 1 at 5)" in label
    assert "NaN or infinities disagree" in page.text(".error-maps .heat-key")


def test_keys_move_from_cell_to_cell_and_are_spoken(open_report: Open) -> None:
    page = opened(open_report, channels())
    spoken = "return document.getElementById('said').textContent"
    page.keys("\ue015" * 5 + "\ue014", MAP.format(1))  # down five times, right
    assert page.js(spoken) == "Axis 1 at 5, axes 2, 3 at (0, 1): largest error 2"
    page.keys("\ue010", MAP.format(1))  # End
    assert page.js(spoken) == "Axis 1 at 7, axes 2, 3 at (5, 6): no error"
    page.keys("\ue013" * 9 + "\ue011", MAP.format(1))  # up beyond the edge, Home
    assert page.js(spoken).startswith("Axis 1 at 0, axes 2, 3 at (0, 0): largest error 1")
    assert page.js("return document.querySelectorAll('#table .selected').length") == 1
    page.keys("\ue00c", MAP.format(1))  # Escape
    assert page.js("return document.getElementById('panel').hidden")


def test_the_pointer_tells_indices_and_error(open_report: Open) -> None:
    page = opened(open_report, channels())
    ((x, y),) = middles(page, 2, [(3, 6)], 6, 7)
    page.js(POINT, MAP.format(2), x, y)
    tip = page.js("return document.querySelectorAll('.error-maps .heat-tip')[1].textContent")
    assert tip == "Axis 2 at 3, axis 3 at 6: NaN or infinity where the sides disagree, largest error 2"


def test_cells_of_large_tensors_hold_ranges(open_report: Open) -> None:
    golden = np.ones((300, 200))
    target = golden.copy()
    target[:, 130:132] = 1.5
    page = opened(open_report, looked(target, golden))
    assert "A cell is 5 \u00d7 4 places" in page.text(".error-maps")
    assert "are in all 60 rows and 1 of 50 columns (axis 1 at 128\u2013131)." in page.text(".error-maps")
    page.keys("\ue014", MAP.format(1))
    assert (
        page.js("return document.getElementById('said').textContent")
        == "Axis 0 at 0\u20134, axis 1 at 4\u20137: no error"
    )
    width = page.js("return document.querySelector('.error-map canvas').getBoundingClientRect().width")
    assert width <= page.js("return document.querySelector('.error-maps').clientWidth")


def test_the_theme_and_paper_recolour_the_map(open_report: Open) -> None:
    page = opened(open_report, channels(), scheme="light")
    places = middles(page, 1, [(5, 0)], 8, 42)
    light = page.js(COLOURS, MAP.format(1), places)
    page.click("#theme-button")
    page.wait("document.documentElement.classList.contains('dark')")
    dark = page.js(COLOURS, MAP.format(1), places)
    assert dark != light
    page.js("dispatchEvent(new Event('beforeprint'))")
    assert page.js(COLOURS, MAP.format(1), places) == light
    page.js("dispatchEvent(new Event('afterprint'))")
    assert page.js(COLOURS, MAP.format(1), places) == dark
    page.js("localStorage.clear()")


def test_a_scalar_and_a_closer_look_without_maps_have_none(open_report: Open) -> None:
    page = opened(open_report, looked(np.array(2.0), np.array(1.0)))
    assert page.js("return document.querySelectorAll('.error-maps').length") == 0
    assert "Absolute errors" in page.text("#panel")
