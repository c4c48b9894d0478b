"""A headless Chromium that records the requests and the errors of a page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from waiting import until

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,1000",
)


class Browser:
    """One window of Chromium on Debian's packages chromium and chromium-driver."""

    def __init__(self, profile: Path):
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for option in (*OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(60)

    def open(self, url: str) -> None:
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):  # requests of the browser itself
            self.driver.get_log(kind)
        self.driver.get(url)

    def js(self, code: str) -> Any:
        """The value of an expression in the page; asked again where the page reloads meanwhile."""
        while True:
            try:
                return self.driver.execute_script(f"return {code}")
            except TimeoutException as error:
                if "no such execution context" not in str(error):
                    raise

    def wait(self, code: str) -> Any:
        """The value of an expression once it is true."""
        return until(lambda: self.js(code))

    def draw_everything(self) -> list[str]:
        """Scroll through all figures and the table; the figures' names."""
        names = self.js("[...document.querySelectorAll('.figure')].map(f => f.dataset.figure)")
        for name in names:
            self.js(f"document.getElementById('{name}').scrollIntoView()")
            self.wait(f"document.getElementById('figure-{name}').dataset.state !== 'drawing'")
            self.wait(f"document.getElementById('figure-{name}').dataset.state")
        return names

    def complaints(self) -> list[str]:
        """Errors on the console, without the one about a missing graphics card."""
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]

    def requests(self) -> set[str]:
        """Everything the page asked for."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        return {
            e["params"]["request"]["url"]
            for e in events
            if e["method"] == "Network.requestWillBeSent"
            # the new tab page, which loads late
            and not e["params"].get("documentURL", "").startswith("chrome")
        }
