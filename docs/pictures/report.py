"""Takes docs/pictures/report.png and report-input.png, of the demo's runs.

Run: sigmax demo; python docs/pictures/report.py sigmax-demo/runs
Needs Chromium with its driver (apt-get install chromium chromium-driver) and selenium.
"""

import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

import sigmax as sx

NAMES = ("dual-consensus", "dual-min", "sigma-0.1", "sigma-0.2", "sigma-0.4")
INPUT = 6  # certified through two experts that agree, where the router is undecided between them
HERE = Path(__file__).parent


def window() -> webdriver.Chrome:
    """Headless Chromium, as wide as a laptop's screen."""
    options = webdriver.ChromeOptions()
    for word in ("headless=new", "no-sandbox", "window-size=1280,1720", "force-prefers-reduced-motion"):
        options.add_argument(f"--{word}")
    options.binary_location = "/usr/bin/chromium"
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def take(browser: webdriver.Chrome, address: str, picture: Path) -> None:
    """One picture of the page at an address, once it is drawn."""
    browser.get("about:blank")
    browser.get(address)
    WebDriverWait(browser, 20).until(
        lambda b: b.execute_script(
            "return document.documentElement.dataset.ready && !document.querySelector('.js-plotly-plot:empty')"
        )
    )
    browser.save_screenshot(str(picture))


def main(runs: Path) -> None:
    """The page of all five runs with their images, and one input of it."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [runs / f"{name}.jsonl" for name in NAMES]
        page, *_ = sx.report.write(paths, folder, images=sx.data.load("digits", "test"))
        browser = window()
        try:
            take(browser, page.as_uri(), HERE / "report.png")
            take(browser, f"{page.as_uri()}#run={NAMES[0]}&input={INPUT}", HERE / "report-input.png")
        finally:
            browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
