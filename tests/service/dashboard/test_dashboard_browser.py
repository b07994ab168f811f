"""The pages in a real browser: every view at three widths in both themes, and everything by keyboard alone."""

from __future__ import annotations

import json
import pathlib
import shutil
import time

import pytest

from blts.live import Experiment, reports
from blts.service.dashboard import frames
from blts.service.dashboard.routes import PAGES
from houses import STORED, TABS, add_stored, facts_of, listening, play

selenium = pytest.importorskip("selenium", reason="the browser test needs selenium: pip install selenium")
from selenium.common import exceptions  # noqa: E402
from selenium.webdriver import ActionChains, Keys  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="the browser test needs Chromium and chromedriver on the PATH")

AXE = (pathlib.Path(__file__).parent.parent / "static" / "axe.min.js").read_text(encoding="utf-8")
WIDTHS, THEMES = (360, 768, 1280), ("light", "dark")
ACTIONS = ("pause", "refresh", "verify", "add-arm", "retire-arm", "correct", "cancel", "stop")
PROBLEMS = {
    "/login?key=1&until=2&signature=3": 401,
    "/experiments/nothing": 404,
    "/experiments/mail/actions/nothing": 404,
    "/x": 404,
}
"""Pages that say what went wrong, and their status."""
VIEWS = (
    "/",
    "/login",
    *PROBLEMS,
    *(f"/experiments/recommendations/{tab}".rstrip("/") for tab in ("", "allocation", "estimates", "health", "connect")),
    *(f"/experiments/pricing/{tab}".rstrip("/") for tab in ("", "estimates", "health")),
    "/new",
    "/keys",
    *(f"/experiments/mail/{tab}".rstrip("/") for tab in TABS),
    *(f"/experiments/hostile/{tab}".rstrip("/") for tab in ("", "allocation", "estimates", "decisions", "audit")),
    *(f"/experiments/fresh/{tab}".rstrip("/") for tab in ("", "feedback", "decisions")),
    "/experiments/over",
    "/experiments/mail/decisions?q=visitor-0-0",
    *(f"/experiments/mail/actions/{action}" for action in ACTIONS),
)
OVERFLOW = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
FOUND = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map((v) => [v.id, v.nodes.map((n) => n.target.join(" ")).slice(0, 3)])));
"""
SMALLER = """
const exempt = ".hint, [type=radio], [type=checkbox], .numbers *, details *, .main *, .crumbs *, table *, .brand, .csv";
const small = [...document.querySelectorAll("a, button, input, select, textarea, summary")].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width && box.height < 24 && getComputedStyle(e).display !== "inline" && !e.matches(exempt);
});
return small.map((e) => e.outerHTML.slice(0, 80));
"""
"""Targets that are hard to hit with a finger."""


@pytest.fixture(scope="module")
def address(service):
    """Where the service is. It also has an experiment with contexts and one with revenue, as they were stored."""
    really = frames.facts_now
    add_stored(service.database)
    with pytest.MonkeyPatch.context() as patch, listening(service) as found:
        patch.setattr(frames, "facts_now", lambda one, now: facts_of(one.name) if one.name in STORED else really(one, now))
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    switches = ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking")
    for argument in (*switches, f"user-data-dir={profile}"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def admin(browser, address, service):
    """The browser, signed in."""
    _, text = service.keys.create("Anna", "admin", by="test")
    browser.get(f"{address}/login")
    browser.find_element("id", "key").send_keys(text, Keys.ENTER)
    until(lambda: "/login" not in browser.current_url)
    return browser


def until(holds, seconds: float = 60.0):
    """Wait until something holds; what it is then. Elements that are not there, because another page loads, are waited for."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = holds()
        except (exceptions.NoSuchElementException, exceptions.StaleElementReferenceException):
            found = None
        if found:
            return found
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def size(browser, width: int, height: int = 900) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def complaints(browser) -> list[str]:
    """What the console says: errors, warnings, and whatever the content security policy refused."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def requested(browser) -> set[str]:
    """The addresses that were asked since the last look."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_is_sound_at_every_width_in_both_themes(admin, address, path):
    complaints(admin)
    requested(admin)
    size(admin, 1280)
    admin.get(address + path)
    admin.execute_script("document.querySelectorAll('details').forEach((one) => { if (!one.closest('.menu')) one.open = true; })")
    # axe is evaluated by the debugger, which the policy of the page does not restrict.
    admin.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    for theme in THEMES:
        admin.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
        for width in WIDTHS:
            size(admin, width)
            needed, there = admin.execute_script(OVERFLOW)
            assert needed <= there, (path, theme, width)
            assert admin.execute_async_script(FOUND) == [], (path, theme, width)
        assert admin.execute_script(SMALLER) == []
    expected = [f"status of {PROBLEMS[path]}"] if path in PROBLEMS else []
    assert [said for said in complaints(admin) if not (expected and expected[0] in said)] == []
    assert all(url.startswith((address, "data:")) for url in requested(admin))
    assert admin.execute_script("return window.hurt === undefined && document.scripts.length === 1")


def test_axe_and_the_console_do_find_what_is_wrong(admin, address):
    """The mutant of the test above: an image without a text, grey on grey, and a script in the page."""
    admin.get(f"{address}/")
    admin.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    admin.execute_script("""
        const view = document.getElementById("view");
        view.innerHTML = "<img src='/static/icon.svg'><p id='pale'>pale</p><button></button>";
        document.getElementById("pale").setAttribute("style", "color: red");
    """)
    assert {"image-alt", "button-name"} <= {name for name, _ in admin.execute_async_script(FOUND)}
    assert any("Content Security Policy" in text for text in complaints(admin))


def test_every_view_was_looked_at():
    """Pages that are added are added to the test above."""
    shown = {page.path for page in PAGES if page.method == "GET"}
    known = {"/", "/login", "/keys", "/new", "/static/{file}", "/events", "/experiments/{name}", "/experiments/{name}/{tab}"}
    assert shown == known | {"/experiments/{name}/actions/{action}", "/experiments/{name}/{tab}/{table}.csv"}


def press(browser, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def tab_to(browser, selector: str, most: int = 120):
    """Press Tab until an element has the focus."""
    for _ in range(most):
        if browser.execute_script("return document.activeElement.matches(arguments[0])", selector):
            outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or browser.execute_script("return document.activeElement.matches('[type=radio]')"), selector
            return browser.switch_to.active_element
        press(browser, Keys.TAB)
    raise AssertionError(f"Tab never came to {selector}")


def test_create_watch_and_stop_by_keyboard_alone(browser, address, service):
    _, text = service.keys.create("Keyboard", "admin", by="test")
    size(browser, 1280)
    browser.get(f"{address}/login")
    press(browser, text, Keys.ENTER)  # the field has the focus
    until(lambda: "/login" not in browser.current_url)
    tab_to(browser, "a[href='/new']")
    press(browser, Keys.ENTER)
    until(lambda: browser.current_url.endswith("/new"))
    tab_to(browser, "#name")
    press(browser, "Bad Name")
    until(lambda: "lower-case" in browser.find_element("id", "name-wrong").text)  # checked on the server while typing
    ActionChains(browser).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).perform()
    press(browser, "keyboard")
    tab_to(browser, "#arms")
    press(browser, "A", Keys.ENTER, "B", Keys.ENTER, "C")
    until(lambda: "3 arms, with A as the control" in browser.find_element("id", "summary").text)
    assert browser.find_element("id", "name-wrong").text == ""
    tab_to(browser, "button[value=create]")
    press(browser, Keys.ENTER)
    until(lambda: "/experiments/keyboard/connect" in browser.current_url, 120)
    tab_to(browser, ".tabs a[href='/experiments/keyboard']")
    press(browser, Keys.ENTER)
    until(lambda: "Waiting for the first decision" in browser.find_element("id", "view").text)
    # Somebody asks: the page shows it by itself, and the focus stays where it was.
    tab_to(browser, ".tabs a[href='/experiments/keyboard/health']")
    Experiment.open(service.database, "keyboard").ask(units=["a", "b"])
    until(lambda: browser.find_element("css selector", ".tile dd").text == "2")
    assert browser.execute_script("return document.activeElement.getAttribute('href')") == "/experiments/keyboard/health"
    browser.execute_script("document.activeElement.blur(); document.body.focus()")
    tab_to(browser, "a[href='/experiments/keyboard/actions/stop']")
    press(browser, Keys.ENTER)
    until(lambda: browser.find_elements("css selector", "[name=promote]"))
    tab_to(browser, "[name=promote]")
    press(browser, Keys.ARROW_DOWN, Keys.SPACE)
    tab_to(browser, "#reason")
    press(browser, "by keyboard")
    tab_to(browser, "#typed")
    press(browser, "keyboard")
    tab_to(browser, "form.narrow button.danger")
    press(browser, Keys.ENTER)
    until(lambda: "everybody new gets" in browser.find_element("id", "view").text)
    experiment = Experiment.open(service.database, "keyboard")
    assert experiment.status()["promoted"] in ("A", "B")
    assert experiment.audit()[-1]["detail"]["reason"] == "by keyboard"


def test_a_page_that_is_open_follows_the_experiment(admin, address, service):
    admin.get(f"{address}/experiments/fresh")
    admin.execute_script("window.same = true")
    until(lambda: admin.find_element("id", "pulse").text == "Live")
    experiment = Experiment.open(service.database, "fresh")
    play(experiment, 1)
    until(lambda: "100" in admin.find_element("css selector", ".tile dd").text)
    assert reports.last(experiment) is not None
    until(lambda: admin.find_elements("css selector", "table.arms"))
    assert admin.execute_script("return window.same")  # it was not loaded anew


def test_without_the_script_everything_is_there(browser, address, service):
    _, text = service.keys.create("Plain", "admin", by="test")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"{address}/login")
        browser.find_element("id", "key").send_keys(text, Keys.ENTER)
        until(lambda: "/login" not in browser.current_url)
        for path in ("/experiments/mail", "/experiments/mail/allocation", "/new", "/keys"):
            browser.get(address + path)
            assert browser.find_elements("css selector", "main h1")
        browser.get(f"{address}/experiments/mail")
        browser.find_element("id", "theme").click()
        until(lambda: browser.find_elements("css selector", "html[data-theme]"))
        assert browser.current_url == f"{address}/experiments/mail"
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
