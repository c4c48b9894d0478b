"""Pictures of a report as a browser draws it, and how long the browser takes to open it.

    python tests/pictures.py results/airfoil/report/report.html --output docs/images --figures slices
    python tests/pictures.py REPORT --output grey --grey     # to look at: can it be told apart in grey?

Printed are wall seconds from the request for the page to its first figure.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from browser import Browser
from selenium.webdriver.common.by import By


def opened(browser: Browser, report: Path) -> float:
    """Wall seconds until the first figure of a report is drawn."""
    began = time.monotonic()
    browser.open(report.resolve().as_uri())
    browser.wait("document.querySelector('.figure').dataset.state === 'drawn'")
    return time.monotonic() - began


def pictures(browser: Browser, folder: Path, names: Sequence[str] | None, *, grey: bool) -> None:
    """Write a PNG file for each of these figures of the page that is open, or for all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    # Buttons that come with the pointer are no part of a picture.
    browser.js("document.head.append(document.createElement('style'))")
    browser.js("document.head.lastChild.textContent = '.modebar {display: none !important}'")
    if grey:
        browser.js("document.documentElement.style.filter = 'grayscale(1)'")
    every = browser.js("[...document.querySelectorAll('.figure')].map(f => f.dataset.figure)")
    for name in names or every:
        browser.js(f"document.getElementById('figure-{name}').scrollIntoView()")
        browser.wait(f"document.getElementById('figure-{name}').dataset.state === 'drawn'")
        figure = browser.driver.find_element(By.ID, f"figure-{name}")
        figure.screenshot(str(folder / f"{name}.png"))


def main() -> None:
    """Draw what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("report", type=Path, help="a report.html")
    parser.add_argument("--figures", nargs="+", help="by their anchors in the page; default: all")
    parser.add_argument("--output", type=Path, help="a folder; without it nothing is drawn")
    parser.add_argument("--grey", action="store_true", help="without colours")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        browser.driver.set_script_timeout(600)
        try:
            print(f"opened in {opened(browser, arguments.report):.2f} s")
            if arguments.output:
                pictures(browser, arguments.output, arguments.figures, grey=arguments.grey)
        finally:
            browser.driver.quit()


if __name__ == "__main__":
    main()
