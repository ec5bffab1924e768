"""A real browser: headless Chromium, driven through the driver that Debian packages with it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 20  # seconds
REQUIRED = "SIGMAX_BROWSER_REQUIRED"  # set where the browser was installed for these tests


def programs() -> tuple[str, str]:
    """Chromium and its driver; the test is skipped without them, unless they are said to be there."""
    found = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    browser, driver = found
    if browser is None or driver is None:
        reason = "needs a browser: apt-get install chromium chromium-driver"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)
    return browser, driver


class Browser:
    """One window; every console message since the last page was opened can be asked for."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, path: Path, fragment: str = "") -> None:
        """The page from disk, once it says that it is ready."""
        self.driver.get("about:blank")  # the same file with another fragment would not be loaded again
        self.console()
        self.driver.get(path.resolve().as_uri() + fragment)
        self.until("document.documentElement.dataset.ready || !document.getElementById('problem').hidden")

    def js(self, expression: str, *arguments: object) -> Any:
        return self.driver.execute_script(f"return {expression}", *arguments)

    def until(self, expression: str) -> None:
        WebDriverWait(self.driver, PATIENCE, poll_frequency=0.02).until(lambda _: self.js(expression), expression)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """What these elements show, in one question; asking each by itself takes a while."""
        found: list[str] = self.js("[...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector)
        return found

    def choose(self, selector: str, value: str) -> None:
        """A value for a select or an input, as a user would set it."""
        self.driver.execute_script(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true}))",
            selector,
            value,
        )

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def emulate(self, command: str, **settings: object) -> None:
        self.driver.execute_cdp_cmd(f"Emulation.{command}", settings)


@contextmanager
def started() -> Iterator[Browser]:
    browser, driver = programs()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    # no sandbox: as root, in a container, Chromium would not start; the pages are our own
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1280,1000"):
        options.add_argument(f"--{word}")
    options.add_argument("--force-prefers-reduced-motion")  # a page that still scrolls cannot be clicked
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(window)
    finally:
        window.quit()
