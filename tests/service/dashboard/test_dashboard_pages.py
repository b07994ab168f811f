"""The pages over HTTP: who may see and do what, what forms need, and what they do."""

from __future__ import annotations

import csv
import io
import re

import pytest

from blts.live import Experiment, jobs
from blts.service import sessions
from blts.service.dashboard import doors, pages
from blts.service.dashboard.routes import PAGES
from blts.service.dashboard.views.actions import ACTIONS
from blts.service.roles import Permission, Role, may
from houses import HOSTILE, REASON, TABS, Somebody, experiment_in

FIRST_VIEW = 100_000  # bytes of a page with what it loads


@pytest.fixture(scope="module")
def people(app, service):
    """Somebody of every role that may look."""
    return {role: Somebody(app, service, role) for role in (Role.reader, Role.operator, Role.admin)}


def test_only_keys_of_people_sign_in(app, service):
    for role in Role:
        found = Somebody(app, service, role)
        allowed = may(role, Permission.look)
        assert found.signed_in.status_code == (303 if allowed else 403), role
        assert found.get("/").status_code == (200 if allowed else 303)
    cookie = Somebody(app, service, Role.reader).signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_nobody_sees_anything(app):
    for page in PAGES:
        path = page.path.replace("{name}", "mail").replace("{tab}", "health").replace("{table}", "ratio")
        path = path.replace("{action}", "pause").replace("{file}", "dashboard.css")
        answer = app.request(page.method, path, follow_redirects=False)
        if page.permission is None:
            assert answer.status_code in (200, 303, 401), path
        elif page.method == "GET":
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/login"), path
        else:
            assert answer.status_code == 401, path


def test_keys_cannot_be_guessed_quickly(app, monkeypatch):
    monkeypatch.setattr(doors, "LOGINS", 0.5)
    found = [app.post("/login", data={"key": f"blts_{i}"}).status_code for i in range(4)]
    assert found == [401, 401, 429, 429]


@pytest.mark.parametrize("cookie", ["", "x", "00000000.9999999999.0", "00000000.9999999999." + "0" * 32, "..", "a.b.c.d"])
def test_forged_cookies_are_nobodys(app, cookie):
    app.cookies.set(sessions.COOKIE, cookie)
    try:
        assert app.get("/", follow_redirects=False).status_code == 303
    finally:
        app.cookies.clear()


def test_a_revoked_key_is_signed_out(app, service, monkeypatch):
    monkeypatch.setattr("blts.service.keys.FRESH", 0.0)
    found = Somebody(app, service, Role.operator)
    assert found.get("/").status_code == 200
    service.keys.revoke(found.key.id, "test")
    assert found.get("/").status_code == 303


def test_a_signed_link_signs_in_once_its_signature_is_right(app, service):
    Somebody(app, service, Role.admin)
    link = sessions.login_link(service.settings, service.keys).removeprefix(service.settings.address)
    assert app.get(link, follow_redirects=False).status_code == 303
    forged = re.sub("signature=.", lambda found: found[0][:-1] + ("0" if found[0][-1] != "0" else "1"), link)
    assert app.get(forged, follow_redirects=False).status_code == 401
    app.cookies.clear()


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb"])
def test_signing_in_leads_to_pages_of_this_service_alone(app, service, wanted):
    _, text = service.keys.create("somebody", "reader", by="test")
    answer = app.post("/login", data={"key": text, "next": wanted}, follow_redirects=False)
    assert answer.headers["location"] == "/"
    app.cookies.clear()


@pytest.mark.parametrize("name", ["mail", "fresh", "over", "hostile"])
@pytest.mark.parametrize("tab", TABS)
def test_every_view_is_small_and_says_what_browsers_may_do(people, name, tab):
    answer = people[Role.reader].get(f"/experiments/{name}/{tab}".rstrip("/"))
    assert answer.status_code == 200
    loaded = len(answer.content) + sum(len(pages.static(file)) for file in pages.FILES)
    assert loaded < FIRST_VIEW
    assert answer.headers["content-security-policy"] == pages.POLICY
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-frame-options"] == "DENY"
    body = answer.text
    assert re.search(r"\sstyle=|<style|<script(?! src=)|\son[a-z]+=", body.replace("onerror=window", "")) is None
    assert re.findall(r"<script", body) == ["<script"]  # the file of this service
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', body)


def test_how_an_experiment_is_set_up_is_said_in_words(people):
    page = people[Role.reader].get("/experiments/mail").text
    assert "0 or 1: a click, a conversion (bernoulli, a 1, b 9)" in page
    assert "close when the worker or somebody refreshes" in page


def test_readers_see_no_actions_and_operators_no_stop(people):
    for role, pause, stop in ((Role.reader, False, False), (Role.operator, True, False), (Role.admin, True, True)):
        text = people[role].get("/experiments/mail").text
        assert ("actions/pause" in text) == pause, role
        assert ("actions/stop" in text) == stop, role
        assert ("/new" in people[role].get("/").text) == (role == Role.admin)


def test_every_action_is_refused_to_those_who_may_not(people):
    token = people[Role.reader].token()
    for action in ACTIONS.values():
        path = f"/experiments/mail/actions/{action.slug}"
        assert people[Role.reader].get(path).status_code == 403
        assert people[Role.reader].http.post(path, data={"token": token}).status_code == 403
        expected = 403 if action.administer else 200
        assert people[Role.operator].get(path).status_code == expected, action.slug
    for path in ("/new", "/keys"):
        assert people[Role.operator].get(path).status_code == 403


def test_forms_need_the_token_of_who_sends_them(people):
    operator, admin = people[Role.operator], people[Role.admin]
    path = "/experiments/mail/actions/pause"
    for token in ("", "x", admin.token()):
        answer = operator.http.post(path, data={"token": token, "reason": "r"})
        assert answer.status_code == 403
    crossed = operator.http.post(path, data={"token": operator.token()}, headers={"Sec-Fetch-Site": "cross-site"})
    assert crossed.status_code == 403
    assert not Experiment.open(operator.service.database, "mail").status()["paused"]


def test_a_key_for_some_experiments_sees_no_others(app, service):
    found = Somebody(app, service, Role.admin, experiments=["over"])
    assert found.get("/experiments/over").status_code == 200
    missing = found.get("/experiments/mail")
    assert missing.status_code == 404
    assert missing.text.replace("mail", "nope") == found.get("/experiments/nope").text
    listed = found.get("/").text
    assert "experiments/over" in listed
    assert "experiments/mail" not in listed
    assert found.get("/keys").status_code == 403
    assert "is not for an experiment" in found.post("/new", name="other", arms="A\nB", do="create").text


def test_numbers_come_as_csv(people):
    reader = people[Role.reader]
    for tab in TABS:
        page = reader.get(f"/experiments/mail/{tab}".rstrip("/")).text
        links = set(re.findall(r'href="([^"]+\.csv)"', page))
        assert links or tab == "connect", tab
        for link in links:
            answer = reader.get(link)
            assert answer.headers["content-type"] == "text/csv; charset=utf-8"
            rows = list(csv.reader(io.StringIO(answer.text)))
            assert len(rows) > 1, link
            assert {len(row) for row in rows} == {len(rows[0])}
    assert reader.get("/experiments/mail/health/none.csv").status_code == 404


def test_decisions_are_found_by_id_and_unit_and_paged(people):
    reader = people[Role.reader]
    first = reader.get("/experiments/mail/decisions").text
    ids = re.findall(r"<code>([0-9a-f]+-\d+)</code>", first)
    assert len(ids) == 50
    older = re.search(r'href="(/experiments/mail/decisions\?before=\d+)"', first)
    assert older is not None
    second = re.findall(r"<code>([0-9a-f]+-\d+)</code>", reader.get(older[1]).text)
    assert len(set(ids) | set(second)) == 100
    assert f"Decision <code>{ids[0]}</code>" in reader.get(f"/experiments/mail/decisions?q={ids[0]}").text
    by_unit = re.findall(r"Decision <code>([0-9a-f]+-\d+)</code>", reader.get("/experiments/mail/decisions?q=visitor-0-0").text)
    assert by_unit[0].endswith("-1")
    assert "No decision has this id or unit" in reader.get("/experiments/mail/decisions?q=nobody").text
    assert reader.get("/experiments/mail/decisions?before=x").status_code == 400


def test_actions_need_a_reason_and_the_irreversible_ones_the_name(app, service):
    experiment = experiment_in(service.database, "acted")
    admin = Somebody(app, service, Role.admin)
    assert "Say why" in admin.act("acted", "pause").text
    assert admin.act("acted", "pause", reason=" too fast ").status_code == 303
    assert experiment.status()["paused"]
    assert "changed since you opened" in admin.post("/experiments/acted/actions/resume", mark="0", reason="r").text
    assert admin.act("acted", "resume", reason="r").status_code == 303
    assert admin.act("acted", "add-arm", label="D", reason="r").status_code == 303
    assert experiment.status()["active"] == ["A", "B", "C", "D"]
    refused = admin.act("acted", "retire-arm", arm="D", reason="r", typed="mail")
    assert refused.status_code == 422
    assert "Type the name" in refused.text
    assert admin.act("acted", "retire-arm", arm="D", reason="r", typed="acted").status_code == 303
    assert experiment.status()["active"] == ["A", "B", "C"]
    assert "Choose the arm" in admin.act("acted", "stop", reason="r", typed="acted").text
    assert admin.act("acted", "stop", reason="done", typed="acted", promote="B").status_code == 303
    assert experiment.status()["promoted"] == "B"
    assert "is stopped; create another one" in admin.act("acted", "pause", reason="r").text
    last = experiment.audit()[-1]
    assert last["actor"] == admin.key.actor
    assert last["detail"]["reason"] == "done"


def test_rewards_are_corrected_and_decisions_cancelled(app, service):
    experiment = experiment_in(service.database, "corrected")
    decision = experiment.ask(units=["u", "v"]).decisions[0]
    operator = Somebody(app, service, Role.operator)
    page = operator.get(f"/experiments/corrected/actions/correct?id={decision.id}").text
    assert "has no reward yet" in page
    assert "must be a number" in operator.act("corrected", "correct", id=decision.id, reward="many", reason="r").text
    assert operator.act("corrected", "correct", id=decision.id, reward="1", reason="r").status_code == 303
    assert experiment.decision(decision.id)["reward"] == 1
    assert "stood so already" in operator.act("corrected", "correct", id=decision.id, reward="1", reason="r").text
    assert operator.act("corrected", "cancel", id=f"{decision.id}\n", reason="r").status_code == 303
    assert experiment.decision(decision.id)["status"] == "cancelled"
    assert operator.act("corrected", "cancel", id="nothing-1", reason="r").status_code == 422


def test_refreshes_and_verifications_are_left_to_the_worker(app, service):
    experiment = experiment_in(service.database, "worked")
    operator = Somebody(app, service, Role.operator)
    for kind in ("refresh", "verify"):
        where = operator.act("worked", kind, force="yes").headers["location"]
        assert "in a moment" in operator.get(where).text
        (job,) = jobs.unfinished(experiment)
        assert (job.kind, job.actor) == (kind, operator.key.actor)
        jobs.run(experiment, job)
        assert "asked for a" in operator.get(where).text
    assert "asked for a" not in operator.get(f"/experiments/mail?job={job.id}").text  # of another experiment


def test_a_test_call_counts_for_nothing(app, service):
    experiment = experiment_in(service.database, "tried")
    operator = Somebody(app, service, Role.operator)
    assert "It works" in operator.post("/experiments/tried/connect").text
    (row,) = experiment.decisions().rows
    assert row["status"] == "cancelled"


def test_keys_are_made_shown_once_and_revoked(app, service):
    admin = Somebody(app, service, Role.admin)
    answer = admin.post("/keys", name="shop", role="app", experiments="mail", origins="https://shop.example")
    (text,) = re.findall(r'value="(blts_[^"]+)"', answer.text)
    key = service.keys.known(text)
    assert (key.name, key.role, key.experiments, key.origins) == ("shop", "app", ("mail",), ("https://shop.example",))
    assert text not in admin.get("/keys").text
    assert "An origin is" in admin.post("/keys", name="shop", role="app", origins="shop").text
    assert admin.post("/keys/revoke", id=key.id).status_code == 200
    assert service.keys.known(text) is None


def test_an_experiment_is_checked_and_created(app, service):
    admin = Somebody(app, service, Role.admin)
    wrong = admin.post("/new/check", name="Mail!", arms="A", floor="x", stop_p="2").json()["errors"]
    assert set(wrong) == {"name", "arms", "floor"}
    assert "took" not in wrong
    taken = admin.post("/new/check", name="mail", arms="A\nB").json()
    assert list(taken["errors"]) == ["name"]
    good = admin.post("/new/check", name="signup", arms="A\nB\nC", window="2d", floor="10 %").json()
    assert good["errors"] == {}
    assert "2 days; silence counts as 0" in good["summary"]
    assert "at least 10\u202f%" in good["summary"]
    blamed = admin.post("/new/check", name="signup", arms="A\nB", stop_p="2").json()["errors"]
    assert list(blamed) == ["stop_p"]
    refused = admin.post("/new", name="signup", arms="A\nB", do="rehearse")
    assert refused.status_code == 422
    assert "Nothing is assumed of the arm" in refused.text
    files = admin.post("/new", name="signup", arms="A\nB", truth="A = 0.1\nB = 0.2", delay="empirical /etc/passwd", do="rehearse")
    assert "Rewards come after" in files.text
    made = admin.post("/new", name="signup", arms="A\nB\nC", floor="10", do="create")
    assert made.headers["location"] == "/experiments/signup/connect?done=create"
    status = Experiment.open(service.database, "signup").status()
    assert (status["arms"], status["floor"], status["window"], status["default_reward"]) == (["A", "B", "C"], 0.1, 86400.0, 0.0)


def test_the_theme_is_kept_and_the_way_back_stays_here(people):
    reader = people[Role.reader]
    answer = reader.http.post("/theme", data={"back": "/experiments/mail"})
    assert answer.headers["location"] == "/experiments/mail"
    assert 'data-theme="dark"' in reader.get("/").text
    assert reader.http.post("/theme", data={"back": "//evil.example"}).headers["location"] == "/"
    assert 'data-theme="light"' in reader.get("/").text


def test_what_is_missing_or_broken_is_a_page(people):
    reader = people[Role.reader]
    for path in ("/experiments/nope", "/experiments/mail/nope", "/static/nope", "/nope"):
        answer = reader.http.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 404
        assert "All experiments" in answer.text
    assert reader.get("/nope").json()["status"] == 404  # for programs
    assert reader.http.post("/experiments/mail").status_code == 405


@pytest.mark.parametrize("tab", TABS)
def test_hostile_texts_are_inert(people, tab):
    text = people[Role.admin].get(f"/experiments/hostile/{tab}".rstrip("/")).text
    assert "<script>window" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    if tab in ("", "allocation", "estimates", "decisions", "policies"):
        assert "&lt;script&gt;" in text
        assert "⟨U+202E⟩" in text


def test_hostile_texts_of_forms_are_inert_or_refused(app, service):
    experiment = experiment_in(service.database, "attacked", HOSTILE)
    admin = Somebody(app, service, Role.admin)
    for text in (*HOSTILE, REASON, "nul\x00byte", "\ud800".encode("utf-8", "surrogatepass"), "x" * 20_000):
        for action, field in (("pause", "reason"), ("add-arm", "label"), ("correct", "id"), ("cancel", "id")):
            answer = admin.act("attacked", action, **{"reason": "r", "reward": "1", field: text})
            assert answer.status_code in (303, 400, 422), (action, text[:20], answer.status_code)
            assert "<script>window" not in answer.text
            if experiment.status()["paused"]:
                experiment.resume("go on")
        for path in ("/new", "/keys"):
            answer = admin.post(path, name=text, arms=text, role=text, origins=text, do="create")
            assert answer.status_code in (200, 400, 422), (path, text[:20])
            assert "<script>window" not in answer.text
        found = admin.http.get("/experiments/attacked/decisions", params={"q": text if isinstance(text, str) else "x"})
        assert found.status_code == 200
        assert "<script>window" not in found.text
