"""The report in a real browser: every figure of 2,500 points, and a study that it follows."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import synthetic
from browser import Browser
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from test_left import painted
from toy import QUICK_STUDY

import dngo
from dngo import archive
from dngo.acting import Acts
from dngo.config import load
from dngo.locate import find_study
from dngo.report.beside import beside as beside_of
from dngo.report.figures import FIGURES
from dngo.report.page import asset, write_report
from dngo.report.serve import Server, Shown
from dngo.study import Study, entries

BOUNDED = """
study: bounded
results: {results}
objective: {{command: "false"}}
space:
  x: {{type: float, low: 0, high: 1}}
  kind: {{type: categorical, choices: [a, b]}}
constraints: [heat: "<= 350"]
design: {{size: 4}}
"""


def written(study: Study) -> Path:
    """The page of a study's report."""
    folder = study.folder / "report"
    page, scores = folder / "report.html", folder / "scores.csv"
    write_report(study, summary=folder / "summary.txt", page=page, scores=scores)
    return page


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> tuple[Study, Path, float]:
    """2,500 points, their report, and the CPU seconds it took."""
    study = synthetic.study(tmp_path_factory.mktemp("large"), iterations=24, size=100)
    before = resource.getrusage(resource.RUSAGE_SELF)
    page = written(study)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return study, page, seconds


@pytest.fixture(scope="module")
def shown(small: Study) -> tuple[Study, Path]:
    """80 points and their report, for what is the same with more of them."""
    return small, written(small)


@pytest.fixture(scope="module")
def browser(chromium: None, tmp_path_factory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.driver.quit()


def test_a_report_of_2500_points_is_quick_and_small(large) -> None:
    _, path, seconds = large
    assert seconds < 60  # of CPU; 14 were seen at a load of 12
    assert path.stat().st_size < 5e6


def test_the_browser_shows_every_figure_without_an_error_or_a_request(large, browser) -> None:
    _, path, _ = large
    browser.open(path.as_uri())
    names = browser.draw_everything()
    assert (
        len(names) == len(FIGURES) - 6
    )  # the goal is the optimum; no thresholds, curves or models
    for name in names:
        div = f"document.getElementById('figure-{name}')"
        assert browser.js(f"{div}.dataset.state") == "drawn", name
        # What was drawn is what was sent, not an empty frame.
        assert browser.js(
            f"{div}.querySelectorAll('.trace, .hm, .points path, canvas, .parcoords').length"
        ), name
    browser.js("document.getElementById('points').scrollIntoView()")
    browser.wait("document.getElementById('found').textContent === '2,500 of 2,500 points'")
    assert browser.js("window.hacked") is None
    assert browser.complaints() == []
    assert {url for url in browser.requests() if not url.startswith(("blob:", "data:"))} == {
        path.as_uri()
    }


def test_a_page_that_is_not_scrolled_has_every_figure(shown, browser) -> None:
    """As it is printed, archived, or taken as a picture."""
    browser.open(shown[1].as_uri())
    states = "[...document.querySelectorAll('.figure')].map(f => f.dataset.state)"
    browser.wait(f"{states}.every(state => state === 'drawn')")
    assert browser.js("window.scrollY") == 0 and browser.complaints() == []


def test_hover_click_filter_and_audit_in_the_browser(shown, browser) -> None:
    study, path = shown
    browser.open(path.as_uri())
    # All of them, as a figure that is drawn later moves what the pointer aims at.
    browser.wait(
        "[...document.querySelectorAll('.figure')].every(f => f.dataset.state === 'drawn')"
    )
    browser.js("document.getElementById('progress').scrollIntoView()")
    dot = browser.driver.find_elements(By.CSS_SELECTOR, "#figure-progress .points path")[40]
    ActionChains(browser.driver).move_to_element(dot).perform()
    label = browser.wait("document.querySelector('#figure-progress .hovertext')?.textContent")
    assert re.search(r"\d+-\d+", label)
    ActionChains(browser.driver).click(dot).perform()
    browser.wait("!document.getElementById('detail').hidden")
    title = browser.js("document.querySelector('#detail h2').textContent")
    assert re.fullmatch(r"Proposal \d+-\d+", title)
    detail = browser.driver.find_element(By.ID, "detail").text
    assert f"dngo audit {study.archive} --proposal" in detail and "found as" in detail

    browser.js("document.getElementById('close').click()")
    browser.js("document.getElementById('points').scrollIntoView()")
    browser.wait("document.getElementById('table').dataset.state === 'drawn'")
    assert browser.js("document.getElementById('found').textContent") == "80 of 80 points"
    ok = int(np.sum(archive.read_table(study.archive).status == "ok"))
    filters = browser.driver.find_elements(By.CSS_SELECTOR, "#table .tabulator-header-filter input")
    filters[1].send_keys("ok")
    browser.wait(f"document.getElementById('found').textContent.startsWith('{ok} of')")
    filters[2].send_keys("<0.5")
    table = archive.read_table(study.archive)
    low = int(np.sum((table.status == "ok") & (table.objective < 0.5)))
    browser.wait(f"document.getElementById('found').textContent.startsWith('{low} of')")
    browser.driver.find_elements(By.CSS_SELECTOR, "#table .tabulator-row")[0].click()
    browser.wait("!document.getElementById('detail').hidden")
    assert browser.complaints() == []


def test_ticked_points_are_shown_side_by_side(shown, browser) -> None:
    study, path = shown
    browser.open(path.as_uri())
    browser.js("document.getElementById('points').scrollIntoView()")
    browser.wait("document.getElementById('table').dataset.state === 'drawn'")
    beside = "document.getElementById('beside')"
    for i in (0, 1):
        assert browser.js(f"{beside}.hidden")
        browser.js(f"document.querySelectorAll('#table input[type=checkbox]')[{i}].click()")
    browser.wait(f"!{beside}.hidden")
    assert browser.js("document.getElementById('detail').hidden")  # a tick is no click on the line
    cells = browser.js(
        f"[...{beside}.querySelectorAll('tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert cells[0] == ["", "0-0", "0-1", "difference"]
    shown = {name: values for name, *values in cells[1:]}
    lines = {line.name: line for line in beside_of(study.archive, ["0-0", "0-1"])}
    for name in ("rate", "alpha"):
        first, second, difference = shown[name]
        expected = lines[name].difference
        assert (float(first), float(second)) == pytest.approx(lines[name].values, rel=1e-5)
        assert ("times" in difference) == ("times" in expected) == (name == "rate")
        numbers = [float(text.removeprefix("times ")) for text in (difference, expected)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-2)
    assert "--proposal 0-0 --proposal 0-1" in browser.js(f"{beside}.textContent")
    assert browser.js("window.hacked") is None and browser.complaints() == []


@pytest.fixture(scope="module")
def page_with_pictures(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("painted")
    study = dngo.create("painted", {"x": (0, 1)}, folder=folder, batch_size=2, **QUICK_STUDY)
    study.optimize(painted, 2, workers=0)
    study.report(folder / "page.html")
    return folder / "page.html"


def test_a_picture_is_shown_and_its_script_does_not_run(page_with_pictures: Path, browser) -> None:
    browser.open(page_with_pictures.as_uri())
    browser.js("document.getElementById('points').scrollIntoView()")
    browser.wait("document.getElementById('table').dataset.state === 'drawn'")
    # Figures that are drawn meanwhile move the table away from under a pointer.
    browser.js("document.querySelectorAll('#table .tabulator-row')[1].click()")
    browser.wait("document.querySelector('#detail img').naturalWidth")
    assert "<b>at</b>" in browser.driver.find_element(By.ID, "detail").text
    browser.js("document.querySelectorAll('#table input[type=checkbox]').forEach(b => b.click())")
    browser.wait("document.querySelectorAll('#beside img').length === 2")
    assert browser.js("window.hacked") is None and browser.complaints() == []


def test_the_page_fits_a_narrow_window_a_dark_one_and_paper(
    page_with_pictures: Path, browser
) -> None:
    command = browser.driver.execute_cdp_cmd
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    size = {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": False}

    def brightness(what: str, of: str) -> float:
        colour = browser.js(f"getComputedStyle(document.querySelector('{what}')).{of}")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765

    try:
        command("Emulation.setDeviceMetricsOverride", size)
        command("Emulation.setEmulatedMedia", dark)
        browser.open(page_with_pictures.as_uri())
        browser.draw_everything()
        page = "document.documentElement"
        assert browser.js(f"{page}.scrollWidth <= {page}.clientWidth")
        for what in ("body", "pre", "a", "p"):
            assert brightness(what, "color") > 0.4, what
        assert brightness("body", "backgroundColor") < 0.2
        assert brightness(".figure", "backgroundColor") == 1  # captions speak of lighter and darker
        # The paper is as wide as the widest figure: nothing is cut off at its right.
        command("Emulation.setEmulatedMedia", {"media": "print", **dark})
        command("Emulation.setDeviceMetricsOverride", {**size, "width": 1400})
        assert brightness("body", "color") < 0.2
        width = browser.js("document.querySelector('main').getBoundingClientRect().width")
        millimetres = int(re.search(r"@page { size: (\d+)mm", asset("report.css"))[1]) - 20
        assert width <= millimetres / 25.4 * 96
    finally:
        command("Emulation.setEmulatedMedia", {"media": "", "features": []})
        command("Emulation.clearDeviceMetricsOverride", {})


# ---- live ---------------------------------------------------------------------------------------


def test_the_served_page_and_its_audits_work_by_the_address_alone(small: Study, browser) -> None:
    server = Server(small, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        browser.open(server.address)
        text = browser.wait("document.getElementById('live').textContent")
        assert "Evaluations    80" in text
        browser.js("document.getElementById('points').scrollIntoView()")
        browser.wait("document.getElementById('table').dataset.state === 'drawn'")
        browser.driver.find_elements(By.CSS_SELECTOR, "#table .tabulator-row")[0].click()
        browser.wait(
            "document.querySelector('#detail pre').textContent.includes('What came of it')"
        )
        browser.js("location.reload()")
        browser.wait("document.getElementById('live')?.textContent.includes('Evaluations    80')")
        assert browser.complaints() == []
        asked = {u for u in browser.requests() if not u.startswith(("blob:", "data:"))}
        own = f"http://127.0.0.1:{server.server_port}/"
        assert all(u.startswith(own) and u.endswith(f"?token={server.token}") for u in asked)
        browser.open(own)
        assert "wrong or missing token" in browser.js("document.body.textContent")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_page_acts_once_for_each_act_also_with_two_pages_open(tmp_path: Path, browser) -> None:
    """Five acts, by typing and clicking, in a page of 400 pixels; a click that is double counts once."""
    text = BOUNDED.format(results=tmp_path / "results")
    (tmp_path / "bounded.yaml").write_text(text)
    study = find_study([tmp_path / "bounded.yaml"])
    study.propose(0, None, study.iteration(0) / "proposals.json")
    server = Server(Shown(study, Acts(study, tmp_path / "bounded.yaml")), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    driver = browser.driver
    browser.open(server.address)
    first = driver.current_window_handle
    driver.set_window_size(400, 900)
    driver.switch_to.new_window("tab")
    driver.get(server.address)
    pages = [first, driver.current_window_handle]
    for page in pages:  # a page that is open for acts does not reload when the other has acted
        driver.switch_to.window(page)
        browser.js("document.getElementById('act').open = true")

    def act(form: str, *, double: bool = False, **fields: str) -> str:
        """What the page says of an act."""
        browser.js("document.getElementById('said').textContent = ''")
        place = f"#act form[data-act={form}]"
        for name, value in fields.items():
            driver.find_element(By.CSS_SELECTOR, f"{place} [name='{name}']").send_keys(value)
        # By script: a page that grows meanwhile moves what a pointer aims at.
        click = "b.click(); b.click()" if double else "b.click()"
        browser.js(f"(b => {{ {click} }})(document.querySelector('{place} button'))")
        return browser.wait("document.getElementById('said').textContent")

    point = {"parameter_x": "0.25", "parameter_kind": "b"}
    said = []
    with study.run_claim.held(wait=0.0, what="it"):
        for page in pages:
            driver.switch_to.window(page)
            said.append(
                [
                    act("add", double=page == first, **point),
                    act("skip", point="0-1", reason="down"),
                    act("note", double=page == first, text="a leak", tags="leak pump"),
                    act("bound", bound="<= 330"),
                    act("stop", reason="lunch"),
                ]
            )
            assert browser.js("document.querySelectorAll('#withdrawable option').length") > 0
        assert "lunch" in study.journal.asked
    done, refused = said
    assert "kind = b" in done[0] and done[1] == "0-1: withdrawn" and done[2] == "The study: noted"
    assert "is now <= 330" in done[3] and "starts nothing more" in done[4]
    assert "waits already" in refused[0] and "outcome" in refused[1] and "already" in refused[2]
    assert "already" in refused[3] and "asked the run to stop" in refused[4]
    assert [e.parameters for e in study.entries()] == [{"x": 0.25, "kind": "b"}]
    assert len(entries.notes(study.archive)) == 1 and browser.complaints() == []
    server.shutdown()
    server.server_close()
    driver.close()
    driver.switch_to.window(first)
    driver.set_window_size(1300, 1000)


def test_watch_and_serve_follow_a_study_to_its_end(brief, browser) -> None:
    study = brief(iterations=0, sleep=0.5)
    server = Server(
        Study(load([study.folder / "config.yaml"], {"results": str(study.folder / "results")})), 0
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser.open(server.address)
    assert "The archive is still empty" in browser.js("document.body.textContent")
    process = study.start("--cores", "2")
    watch = subprocess.Popen(
        [sys.executable, "-m", "dngo", "watch", "--interval", "0.2"],
        cwd=study.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = process.communicate()
    assert process.returncode == 0, output
    lines = watch.communicate()[0].splitlines()
    assert watch.returncode == 0
    assert any("of 8 evaluated" in line and "0 of them merged" in line for line in lines)
    assert re.match(r"8 evaluations, 8 of them merged; .*; best \S+ \(\d-\d\)$", lines[-1])
    assert "\x1b" not in "".join(lines)
    # The page has refreshed itself: nobody typed or clicked.
    browser.wait("document.querySelector('.headline').textContent.includes('8 evaluations')")
    browser.wait("document.getElementById('figure-progress').dataset.state === 'drawn'")
    with urllib.request.urlopen(server.address) as answer:
        assert "8 evaluations" in answer.read().decode()
    server.shutdown()
    server.server_close()
