"""Take the picture of a report that the guide shows: `python tools/picture_report.py` writes docs/guide/report.png.

It is the page of this project's lock in a headless Chromium, from a kernel's heading on, with the kernel's rows
unfolded. Chromium, ChromeDriver and selenium (the extra `browser`) have to be installed.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from pathlib import Path
from typing import Final

from selenium import webdriver

import pretuned

ROOT: Final = Path(__file__).parents[1]
PICTURE: Final = ROOT / "docs" / "guide" / "report.png"
HEADING: Final = "axpby on NVIDIA H100 80GB HBM3"
WIDTH: Final = 1160  # CSS pixels
HEIGHT: Final = 660
ABOVE: Final = 12  # the heading
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
UNFOLD: Final = """
const heading = [...document.querySelectorAll("h3")].find(one => one.textContent === arguments[0]);
const rows = [...document.querySelectorAll("summary")].find(one => one.textContent.endsWith(` of ${arguments[0]}`));
rows.parentElement.open = true;
return heading.getBoundingClientRect().top + window.scrollY;
"""


def picture(page: Path, profile: str) -> bytes:
    """Return the picture of a page as a PNG file."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(f"file://{page}")
        top = driver.execute_script(UNFOLD, HEADING) - ABOVE
        clip = {"x": 0, "y": top, "width": WIDTH, "height": HEIGHT, "scale": 1}
        shot = {"format": "png", "clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", shot)["data"])
    finally:
        driver.quit()


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        pretuned.report(ROOT, out=page)
        PICTURE.write_bytes(picture(page, str(Path(folder, "profile"))))
    print(f"{PICTURE.relative_to(ROOT)}: {WIDTH} x {HEIGHT}")


if __name__ == "__main__":
    main()
