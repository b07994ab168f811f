"""The documentation site: it builds without a warning, its links lead somewhere, and it opens without a network."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys

import pytest

pytest.importorskip("sphinx", reason='the site needs Sphinx: pip install "blts[docs]"')
pytest.importorskip("openfeature", reason='the reference imports every module: pip install "blts[all]"')

import steps
from built_site import DOCS, broken, build, from_elsewhere
from documents import PAGES, blocks, unclear

sys.path.insert(0, str(DOCS / "_ext"))

from entries import expanded

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
IN_A_BROWSER = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="the browser test needs Chromium and chromedriver on the PATH")
AXE = (DOCS.parent / "tests" / "service" / "static" / "axe.min.js").read_text(encoding="utf-8")
RUN_AXE = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"]}).then(
  found => done(found.violations.map(v => `${v.id}: ${v.nodes[0].html.slice(0, 200)}`)));
"""

THIN = """
const wide = cell => !cell.checkVisibility() || cell.offsetWidth >= 40 || cell.textContent.trim().length < 3;
return [...document.querySelectorAll("article td, article th")].filter(cell => !wide(cell)).map(cell => cell.textContent.trim());
"""
"""Cells of tables whose words are broken into letters."""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    """The whole site."""
    out = tmp_path_factory.mktemp("site") / "html"
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr
    return out


def test_every_link_leads_somewhere_and_nothing_is_fetched(site):
    assert len(list(site.rglob("*.html"))) > len(PAGES)
    assert broken(site) == []
    assert from_elsewhere(site) == []


def test_the_search_knows_what_the_pages_say(site):
    """The index is a script, so that the search works from file://."""
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", (site / "searchindex.js").read_text("utf-8"), re.DOTALL)[1])  # type: ignore[index]
    assert {"propens", "batch", "regret"} <= index["terms"].keys()  # stems
    assert "explanation/propensities" in index["docnames"]


BROKEN_PAGES = {
    "a-link-to-no-page": "[gone](gone.md)",
    "a-link-to-no-place": "[gone](#nowhere)",
    "a-reference-to-no-name": "{py:class}`blts.Nobody`",
    "a-directive-that-does-not-exist": ":::{nothing}\n:::",
    "a-picture-that-does-not-exist": "![gone](gone.svg)",
}


def test_a_broken_page_fails_the_build(tmp_path):
    """The mutants of the build: each is named, and a page that is right is not."""
    source = tmp_path / "pages"
    source.mkdir()
    for name, text in {**BROKEN_PAGES, "a-good-page": "`Thompson` in {doc}`index`"}.items():
        (source / f"{name}.md").write_text(f"---\norphan: true\n---\n# Page\n\n{text}\n")
    (source / "index.md").write_text("# Index\n\n:::{entries}\nblts.Thompson\n:::\n")
    done = build(source, tmp_path / "html")
    assert done.returncode != 0
    assert [name for name in BROKEN_PAGES if f"{name}.md" not in done.stderr] == []
    assert "a-good-page.md" not in done.stderr


def test_an_entry_of_no_name_fails_the_build():
    assert ".. autoclass:: blts.Thompson\n" in expanded(":::{entries}\nblts.Thompson\n:::")
    with pytest.raises(KeyError, match="Nobody"):
        expanded(":::{entries}\nblts.Nobody\n:::")


def test_broken_links_are_found(tmp_path):
    """The mutants of the link checker."""
    (tmp_path / "a.html").write_text(
        '<h1 id="here"></h1><a href="#here"></a><a href="b.html#there"></a><a href="https://x.test"></a>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there"></h1><img src="https://x.test/a.png">')
    assert broken(tmp_path) == []
    assert from_elsewhere(tmp_path) == ["https://x.test/a.png"]
    (tmp_path / "c.html").write_text('<a href="#gone"></a><a href="b.html#gone"></a><a href="gone.html"></a><img src="gone.png">')
    assert len(broken(tmp_path)) == 4


def test_code_that_nothing_runs_says_why():
    """Python of other libraries is on the pages about them alone, new files are on the page for contributors, and every block has a
    language that says what becomes of it."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert unclear(text) == [], path.name
        unrun = {block.language for block in blocks(text)} & {"py", "diff"}
        assert not unrun or path == steps.PAGE or (path.parent.name == "coming-from" and unrun == {"py"}), path.name


def chromium(profile: pathlib.Path):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", f"user-data-dir={profile}"):
        options.add_argument(f"--{argument}")
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_script_timeout(110)  # below that of the connection
    return driver


@pytest.mark.slow
@IN_A_BROWSER
def test_the_site_in_a_browser_from_disk(site, tmp_path):
    """The search finds a word; at two widths, light and dark, axe finds nothing, no page scrolls sideways, no table is squeezed."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser = chromium(tmp_path)
    try:
        browser.get((site / "search.html").as_uri() + "?q=propensity")
        hits = WebDriverWait(browser, 60).until(lambda b: b.find_elements(By.CSS_SELECTOR, "#search-results li a"))
        assert any("propensities" in str(hit.get_attribute("href")) for hit in hits)
        for width, scheme in ((1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            for path in sorted(site.rglob("*.html")):
                browser.get(path.as_uri())
                browser.execute_script(AXE)
                assert browser.execute_async_script(RUN_AXE) == [], (path.name, width, scheme)
                assert browser.execute_script("return document.documentElement.scrollWidth") <= width, (path.name, width)
                assert browser.execute_script(THIN) == [], (path.name, width)
    finally:
        browser.quit()
