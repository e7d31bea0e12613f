"""A headless Chromium, and the pages that tests look at in it."""

from __future__ import annotations

import shutil
import tempfile

import pytest

import pretuned
from documents import ROOT

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    "--disable-dev-shm-usage",  # which is small in containers
)


class Browser:
    """A page in Chromium: opened at a width in CSS pixels, light or dark; `do` returns what a script returns."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, file, width, scheme="light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get(f"file://{file}")

    def do(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def press(self, key, code, text=""):
        """Press a key where the focus is, as a keyboard does."""
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
        self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown" if text else "rawKeyDown", **pressed})
        self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", **pressed})

    @property
    def complaints(self):
        """What the console holds since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="session")
def chromium(request):
    """The driver of one Chromium; tests are skipped without one, but for `--all-libraries`."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, server = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or server is None:
        (pytest.fail if request.config.getoption("--all-libraries") else pytest.skip)("chromium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(server))
        try:
            yield driver
        finally:
            driver.quit()


@pytest.fixture
def browser(chromium):
    found = Browser(chromium)
    yield found
    found.open("/dev/null", 800)  # nothing of a page stays


@pytest.fixture(scope="session")
def bundled(chromium, tmp_path_factory):
    """The page of the bundled lock."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    pretuned.report(ROOT, out=file)
    return file
