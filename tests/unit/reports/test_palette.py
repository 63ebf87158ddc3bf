"""The colours of pictures: they can be read, they differ for everybody, and nothing is as prominent as an origin."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest

from probe_flow.reports.html.assets import asset_text
from probe_flow.reports.marks import LOOKS, Mark
from probe_flow.reports.palette import COLOURS, INKS, SURFACES, palette_css

THEMES = ("light", "dark")
MARKS = [name for name in COLOURS if name.endswith("-mark")]
AREAS = [(mark, name) for mark, look in LOOKS.items() for _, name in look.fills]
READABLE = 4.5
"""Contrast of text that WCAG 2.2 asks for (1.4.3)."""
VISIBLE = 3.0
"""Contrast of graphical objects that it asks for (1.4.11)."""
DIFFERENT = 10.0
"""Distance in CIE Lab that everybody sees side by side; about 2 is the least that trained eyes do."""

SIGHT = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What people see, as matrices on linear RGB: Machado, Oliveira, Fernandes 2009, severity 1.0."""
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.95047, 1.0, 1.08883)

Triple = tuple[float, float, float]


def linear(colour: str) -> Triple:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue))


def turned(matrix: tuple[Triple, Triple, Triple], colour: Triple) -> Triple:
    return tuple(sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)


def contrast(one: str, other: str) -> float:
    low, high = sorted(turned(TO_XYZ, linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour: Triple) -> Triple:
    ratios = [max(part, 0.0) / white for part, white in zip(turned(TO_XYZ, colour), WHITE, strict=True)]
    x, y, z = (ratio ** (1 / 3) if ratio > 0.008856 else 7.787 * ratio + 16 / 116 for ratio in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: str, other: str, sight: str) -> float:
    seen = [lab(turned(SIGHT[sight], linear(colour))) for colour in (one, other)]
    return sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5


def prominence(name: str, theme: int) -> float:
    return contrast(COLOURS[name][theme], SURFACES[theme])


def test_the_measures_agree_with_published_values() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)  # the lightest grey for text on white
    assert lab(linear("#ff0000")) == pytest.approx((53.24, 80.09, 67.20), abs=0.1)


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize(("mark", "name"), AREAS)
def test_text_can_be_read_on_every_area(mark: Mark, name: str, theme: int) -> None:
    ink = COLOURS["on-origin"][theme] if mark in (Mark.ORIGIN, Mark.DRIFT) else INKS[theme]
    assert contrast(COLOURS[name][theme], ink) >= READABLE


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize("name", MARKS)
def test_every_mark_and_line_can_be_seen(name: str, theme: int) -> None:
    assert prominence(name, theme) >= VISIBLE


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
def test_nothing_is_as_prominent_as_an_origin(theme: int) -> None:
    origins = [name for mark, name in AREAS if mark in (Mark.ORIGIN, Mark.DRIFT)]
    others = [name for mark, name in AREAS if mark not in (Mark.ORIGIN, Mark.DRIFT)]
    assert min(prominence(name, theme) for name in origins) > 1.5 * max(prominence(name, theme) for name in others)
    assert all(
        prominence("origin-mark", theme) > 1.2 * prominence(name, theme) for name in MARKS if name != "origin-mark"
    )


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize("mark", LOOKS)
def test_of_one_role_the_larger_the_unexplained_error_the_more_prominent(mark: Mark, theme: int) -> None:
    for (low, one), (high, other) in pairwise(LOOKS[mark].fills):
        assert low < high
        assert prominence(one, theme) < prominence(other, theme)


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize("sight", SIGHT)
def test_roles_differ_for_all_kinds_of_colour_blindness(sight: str, theme: int) -> None:
    apart = {Mark.ORIGIN, Mark.INHERITED, Mark.OVER, Mark.MISSING, Mark.FINE}
    areas = [(mark, COLOURS[name][theme]) for mark, name in AREAS if mark in apart]
    for (one, first), (other, second) in combinations(areas, 2):
        assert one is other or distance(first, second, sight) >= DIFFERENT, (one, first, other, second)
    for one, other in combinations(MARKS, 2):
        assert distance(COLOURS[one][theme], COLOURS[other][theme], sight) >= DIFFERENT, (one, other)


def test_colour_is_never_alone() -> None:
    for field in ("word", "sign", "letter"):
        assert len({getattr(look, field) for look in LOOKS.values()}) == len(LOOKS), field


def test_the_style_sheet_has_every_colour_of_both_themes_and_light_ones_on_paper() -> None:
    light, dark, paper = (dict(re.findall(r"--([\w-]+): (#\w+);", line)) for line in palette_css().splitlines())
    assert light == paper == {name: colours[0] for name, colours in COLOURS.items()}
    assert dark == {name: colours[1] for name, colours in COLOURS.items()}


def test_the_report_has_the_background_and_the_text_that_the_colours_are_made_for() -> None:
    style = asset_text("report.css")
    assert re.findall(r"--surface: (#[0-9a-f]{6});", style) == list(SURFACES)
    assert re.findall(r"--text: (#[0-9a-f]{6});", style) == list(INKS)
