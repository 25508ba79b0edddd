"""The browser that all tests of pages share."""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("SPARSENAM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'sparsenam[browser]'")
    if CHROMIUM is None:
        pytest.skip("no Chromium found: install it or set SPARSENAM_CHROMIUM")
    with playwright.sync_playwright() as started:
        # inside a container root has no user namespace for the sandbox
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        made = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield made
        made.close()
