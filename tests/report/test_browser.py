"""A report in a real browser, from disk: pictures, links, the console, and a narrow screen."""

from __future__ import annotations

import pathlib
import shutil
from urllib.parse import unquote, urlsplit

import pytest

from blts.report import write
from stored import HOSTILE, SAMPLERS, STUDY, fill, renamed

selenium = pytest.importorskip("selenium", reason="the browser test needs selenium: pip install selenium")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="the browser test needs Chromium and chromedriver on the PATH")

OVERFLOW = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
IMAGES = (
    "return [...document.querySelectorAll('[role=img]')].map(i => "
    "[i.querySelector('svg').getBBox().width, i.ariaLabel, !!i.querySelector('path')])"
)
COLOURS = (
    "return [document.body, document.querySelector('.chart path')].map(e => "
    "[getComputedStyle(e).backgroundColor, getComputedStyle(e).fill])"
)
UNFOLDED = (
    "return [...document.querySelectorAll('details:not([open])')].map(e => "
    "getComputedStyle(e, '::details-content').contentVisibility == 'visible')"
)
TARGETS = "return [...document.querySelectorAll('a')].map(a => [a.getAttribute('href'), a.href])"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """A report with every kind of figure and a study of hostile names."""
    place = tmp_path_factory.mktemp("browser") / "a folder with spaces"
    hostile = renamed(
        name="hostile", title=HOSTILE, text=HOSTILE, labels={"blts": HOSTILE, "regret": HOSTILE * 3}, figures=("dots",)
    )
    fill(place, STUDY, *SAMPLERS, hostile)
    write(place, title=HOSTILE, lead="A lead with a_very_long_name_that_does_not_break_" + 20 * "anywhere")
    return place


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "no-first-run",
        "disable-background-networking",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_page_load_timeout(30)
    yield driver
    driver.quit()


def visit(browser, path: pathlib.Path, width: int, height: int = 900) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())


def test_every_picture_is_shown_and_described(browser, folder):
    visit(browser, folder / "index.html", 1200)
    images = browser.execute_script(IMAGES)
    assert len(images) == 13
    for width, alt, complete in images:
        assert complete
        assert width > 0
        assert len(alt) > 20


def test_dark_pages_have_dark_figures(browser, folder):
    found = {}
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        visit(browser, folder / "index.html", 1200)
        (page, _), (_, figure) = browser.execute_script(COLOURS)
        assert page == figure  # the background of a figure is the page's
        found[scheme] = page
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert found["light"] == "rgb(255, 255, 255)"
    assert found["dark"] != found["light"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, folder, scheme):
    axe = (pathlib.Path(__file__).parent.parent / "service/static/axe.min.js").read_text(encoding="utf-8")
    run = "axe.run(document, {resultTypes: ['violations']}).then(r => arguments[0](r.violations.map(v => [v.id, v.nodes[0].html])))"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    visit(browser, folder / "index.html", 1200)
    browser.execute_script(axe)
    assert browser.execute_async_script(run) == []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_print_unfolds_tables(browser, folder):
    visit(browser, folder / "index.html", 1200)
    folded = browser.execute_script(UNFOLDED)
    assert folded
    assert not any(folded)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert all(browser.execute_script(UNFOLDED))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_links_lead_somewhere(browser, folder):
    visit(browser, folder / "index.html", 1200)
    targets = browser.execute_script(TARGETS)
    assert len(targets) > 30
    for written, resolved in targets:
        if written.startswith("#"):
            assert browser.execute_script("return !!document.getElementById(arguments[0])", written[1:]), written
        else:
            parts = urlsplit(resolved)
            assert parts.scheme == "file", written
            assert pathlib.Path(unquote(parts.path)).is_file(), written


def test_the_console_is_silent_and_nothing_hostile_ran(browser, folder):
    browser.get_log("browser")
    visit(browser, folder / "index.html", 1200)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.execute_script("return document.scripts.length") == 0
    assert HOSTILE in browser.title
    # The mutant: the console does tell of a page that is broken.
    broken = folder / "broken.html"
    broken.write_text("<!DOCTYPE html><html lang='en'><link rel='icon' href='data:,'><img src='none.svg' alt='none'></html>")
    visit(browser, broken, 1200)
    assert browser.get_log("browser")


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_the_page_does_not_scroll_sideways(browser, folder, tmp_path, width):
    visit(browser, folder / "index.html", width)
    needed, there = browser.execute_script(OVERFLOW)
    assert width - 20 <= there <= width  # a scroll bar may stand beside it
    assert needed <= there
    picture = tmp_path / f"report-{width}.png"
    assert browser.save_screenshot(str(picture))
    assert picture.stat().st_size > 10_000
    # The mutant: without the boxes in which wide tables scroll, a phone's page is too wide.
    browser.execute_script(
        "document.querySelectorAll('details').forEach(e => e.open = true);"
        "document.querySelectorAll('.scroll').forEach(e => e.classList.remove('scroll'))"
    )
    needed, there = browser.execute_script(OVERFLOW)
    assert (needed > there) == (width < 1200)
