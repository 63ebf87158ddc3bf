"""A headless Chromium for tests; without one they are skipped."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900")


def start_chromium(*flags: str) -> Any:
    """Return a driver of a new browser; whoever asks ends it with `quit`."""
    browser = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    server = shutil.which("chromedriver")
    if browser is None or server is None:
        pytest.skip("neither chromium nor google-chrome with chromedriver is installed")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (*FLAGS, *flags):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(server))
