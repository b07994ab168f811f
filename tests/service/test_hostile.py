"""Hostile input is refused in a sentence or stored as it is; every answer has its headers; pages of other sites see nothing."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from blts.service import limits
from blts.service.roles import Role
from blts.service.routes import ROUTES
from served import MAIL, Served, experiment_in, served

ADMIN, APP = Role.admin, Role.app
JSON = {"Content-Type": "application/json"}
WHY = b'"reason": "x"'
SHOP = "https://shop.example"
BODIES = {
    "nothing": b"",
    "text": b"hello",
    "null": b"null",
    "list": b"[]",
    "cut": b'{"n": 1',
    "two": b"{}{}",
    "NaN": b'{"n": NaN}',
    "infinity": b'{"n": Infinity}',
    "huge number": b'{"n": 1' + b"0" * 5000 + b"}",
    "huge exponent": b'{"n": 1e999999}',
    "negative": b'{"n": -1}',
    "fraction": b'{"n": 1.5}',
    "number as text": b'{"n": "1"}',
    "lone high surrogate": b'{"units": ["\\ud800"]}',
    "lone low surrogate": b'{"units": ["\\udc00x"]}',
    "surrogate in UTF-8": b'{"units": ["\xed\xa0\x80"]}',
    "broken UTF-8": b'{"units": ["\xff\xfe"]}',
    "UTF-16": '{"n": 1}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"n": 1}',
    "long unit": json.dumps({"units": ["x" * 10_000]}).encode(),
    "empty unit": b'{"units": [""]}',
    "blank unit": b'{"units": [" "]}',
    "NUL": b'{"units": ["a\\u0000b"]}',
    "deep": b'{"contexts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep tables": b'{"contexts": [' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"]}",
    "unknown field": b'{"m": 1}',
    "prototype": b'{"__proto__": {"n": 1}}',
}


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served() as found:
        yield found


def checked(answer: Any) -> Any:
    """An answer that is no failure of the service and has all headers; what it says."""
    assert answer.status_code < 500, answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    assert "server" not in answer.headers
    if answer.status_code < 400:
        return answer
    problem = answer.json()
    if answer.headers["content-type"] == "application/json":  # of a protocol that has errors of its own
        assert answer.request.url.path.startswith("/ofrep/")
        assert set(problem) - {"key"} == {"errorCode", "errorDetails"}
        problem = {"detail": problem["errorDetails"]}
    else:
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["detail"].endswith((".", "…"))
    assert "Traceback" not in problem["detail"]
    assert len(problem["detail"]) < 2000
    return answer


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_that_nobody_should_send(service: Served, body: bytes) -> None:
    before = experiment_in(service.service.database).status()["decisions"]
    answer = checked(service.call(APP, "POST", f"{MAIL}/decisions", content=body, headers=JSON))
    after = experiment_in(service.service.database).status()["decisions"]
    if body:
        assert answer.status_code in (400, 422)
        assert after == before
    else:
        assert (answer.status_code, after) == (200, before + 1)  # one decision


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("decisions", {"unit": ["ann"]}, "There is no field 'unit'. Did you mean 'units'? Known: n, units, contexts, available."),
        (
            "rewards",
            {"rewards": [{"unit": "ann", "rewards": 1}]},
            "There is no field 'rewards' at $.rewards[0]. Did you mean 'reward'? Known: reward, decision_id, unit.",
        ),
        ("verify", {"x" * 300: 1}, f"There is no field '{'x' * 199}…. Known: none."),
        ("decisions?limits=3", None, "There is no field 'limits'. Did you mean 'limit'? Known: after, before, limit."),
    ],
)
def test_a_misspelt_field_is_answered_with_the_names_of_the_fields(service: Served, path: str, body: Any, said: str) -> None:
    method, sent = ("GET", {}) if body is None else ("POST", {"json": body})
    assert service.refused(ADMIN, method, f"{MAIL}/{path}", 422, **sent) == said


def test_a_misspelt_setting_of_a_new_experiment_is_answered_with_the_names_of_the_settings(service: Served) -> None:
    body = {"name": "new", "specification": {"arms": ["A", "B"], "model": "conversions", "burnin": 5}}
    said = service.refused(ADMIN, "POST", "/v1/experiments", 422, json=body)
    assert said.startswith("There is no field 'burnin' at $.specification. Did you mean 'burn_in'? Known: arms, model, sampler, ")


def test_a_field_that_is_given_twice_counts_once(service: Served) -> None:
    answer = checked(service.call(APP, "POST", f"{MAIL}/decisions", content=b'{"n": 5, "n": 2}', headers=JSON))
    assert len(answer.json()["decisions"]) == 2


@pytest.mark.parametrize("reward", [b"1e30", b"1" + b"0" * 400, b"-1", b"0.5", b"1e308", b"-0.0", b"true"])
def test_rewards_that_cannot_be(service: Served, reward: bytes) -> None:
    (decision,) = service.done(APP, "POST", f"{MAIL}/decisions", json={"n": 1})["decisions"]
    body = b'{"rewards": [{"decision_id": "%s", "reward": %s}]}' % (decision["id"].encode(), reward)
    told = checked(service.call(APP, "POST", f"{MAIL}/rewards", content=body, headers=JSON)).json()
    assert (told["accepted"], told["invalid"]) == ((1, 0) if reward in (b"-0.0", b"true") else (0, 1))


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", "x", ""]
)
def test_only_json_is_read(service: Served, kind: str) -> None:
    answer = checked(service.call(APP, "POST", f"{MAIL}/decisions", content=b"{}", headers={"Content-Type": kind}))
    assert answer.status_code == 415
    good = {"Content-Type": "application/json; charset=utf-8"}
    assert checked(service.call(APP, "POST", f"{MAIL}/decisions", content=b"{}", headers=good)).status_code == 200


def test_bodies_beyond_the_limit_are_not_read(service: Served) -> None:
    answer = checked(service.call(APP, "POST", f"{MAIL}/decisions", content=b" " * (limits.BODY + 1), headers=JSON))
    assert answer.status_code == 413
    answer = checked(service.call(APP, "POST", f"{MAIL}/decisions", content=b" " * (limits.BODY - 2) + b"{}", headers=JSON))
    assert answer.status_code == 200
    for length in ("-1", "x", "9" * 5000, b"\xb2"):
        headers = JSON | {"Content-Length": length}
        checked(service.call(APP, "POST", f"{MAIL}/decisions", content=b"{}", headers=headers))


def test_of_a_body_in_pieces_no_more_is_read_than_the_limit(service: Served) -> None:
    read, sent = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 100_000
        return {"type": "http.request", "body": b" " * 100_000, "more_body": True}  # without end

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {service.keys[APP]}".encode()), (b"transfer-encoding", b"chunked")]
    scope = {"type": "http", "method": "POST", "path": f"{MAIL}/decisions", "headers": headers, "query_string": b""}
    assert service.client.portal is not None
    service.client.portal.call(service.client.app, scope, receive, send)
    assert sent[0]["status"] == 413
    assert read <= limits.BODY + 100_000


HOSTILE = [
    "<script>alert(1)</script>",
    "‮evil",
    "a" * 10_000,
    "x\x00y",
    "'; DROP TABLE blts_keys; --",
    "=1+1",
    "{{7*7}}",
    "a\u2028b",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_are_stored_as_they_are_or_refused(service: Served, text: str) -> None:
    headers = {"Idempotency-Key": text} if text.isascii() and text.isprintable() else {}
    asked = checked(service.call(APP, "POST", f"{MAIL}/decisions", json={"units": [text]}, headers=headers))
    assert asked.status_code == (200 if 0 < len(text) <= 200 and "\x00" not in text else 422)
    paused = checked(service.call(ADMIN, "POST", f"{MAIL}/pause", json={"reason": text}))
    assert paused.status_code == (422 if "\x00" in text else 204)
    if paused.status_code == 204:
        service.done(ADMIN, "POST", f"{MAIL}/resume", 204, json={"reason": "on"})
        reasons = [row["detail"].get("reason") for row in service.done(ADMIN, "GET", f"{MAIL}/audit?limit=2")["rows"]]
        assert reasons == ["on", text]
    made = checked(service.call(ADMIN, "POST", "/v1/keys", json={"name": text, "role": "client"}))
    assert made.status_code == (201 if len(text) <= 100 and "\x00" not in text else 422)


def test_labels_are_stored_as_they_are_or_refused(service: Served) -> None:
    for label in ("x" * 201, "a\x00b", " ", "A "):
        assert checked(service.call(ADMIN, "POST", f"{MAIL}/arms", json={"label": label, "reason": "x"})).status_code == 422
    service.done(ADMIN, "POST", f"{MAIL}/arms", json={"label": HOSTILE[0], "reason": "x"})
    assert service.done(ADMIN, "GET", MAIL)["arms"][-1]["label"] == HOSTILE[0]
    assert HOSTILE[0] in checked(service.call(ADMIN, "GET", f"{MAIL}/export")).text.splitlines()[0]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/experiments/%00",
        "/v1/experiments/%ff",
        "/v1/experiments/%ed%a0%80",
        "/v1/experiments/" + "x" * 5000,
        "/v1/experiments/%3Cscript%3E",
        "/v1/experiments/mail%2f..%2fsite",
        "/v1/experiments/mail/decisions/%00",
        "/v1/experiments/mail/decisions/" + "9" * 400,
        "/v1/experiments/mail/policies/" + "9" * 400,
        "/v1/experiments/mail/",
        "//v1/experiments",
        "/nothing",
        "/v1/jobs/%00",
        "/v1/jobs/" + "x" * 5000,
    ],
)
def test_paths(service: Served, path: str) -> None:
    answer = checked(service.call(ADMIN, "GET", path, follow_redirects=False))
    assert answer.status_code == 404
    assert "site" not in answer.json()["detail"] or "site" in path


@pytest.mark.parametrize("name", ["shop/front", "/", "a/b%2Fc/", "../mail"])
def test_names_with_slashes_are_reached(service: Served, name: str) -> None:
    experiment_in(service.service.database, name)
    for slash in ("%2F", "%2f"):
        at = f"/v1/experiments/{quote(name, safe='').replace('%2F', slash)}"
        assert service.done(ADMIN, "GET", at)["name"] == name
        assert len(service.done(APP, "POST", f"{at}/decisions", json={"n": 2})["decisions"]) == 2
    other = service.key(APP, experiments=["mail"])
    assert "no experiment" in service.refused(other, "POST", f"{at}/decisions", 404, json={})
    service.refused(ADMIN, "POST", "/v1/experiments", 422, json={"name": name, "specification": {"arms": [], "model": "counts"}})


@pytest.mark.parametrize(
    "key", ["", " ", "Bearer", "x" * 10_000, "blts_\x80", "blts_00000000_" + "A" * 43, "blts_00000000_" + "A" * 44, "blts_%s_"]
)
def test_keys_that_are_none(service: Served, key: str) -> None:
    for scheme in ("Bearer ", "bearer ", "Basic ", ""):
        headers = {"Authorization": f"{scheme}{key}".encode("latin-1")}
        answer = checked(service.client.get("/v1/experiments", headers=headers))
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert key not in answer.json()["detail"] or not key.strip() or key == "Bearer"


def test_a_failure_says_nothing_of_its_cause(service: Served, monkeypatch: Any, caplog: Any) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the secret of a database")

    monkeypatch.setattr(service.service.database, "names", fail)
    with caplog.at_level(logging.ERROR, "blts.service"):
        answer = service.call(None, "GET", "/readyz")
    assert (answer.status_code, answer.headers["x-content-type-options"]) == (500, "nosniff")
    assert "secret" not in answer.text
    assert "the secret of a database" in caplog.text


def test_every_route_sends_the_headers(service: Served) -> None:
    for route in ROUTES:
        path = re.sub(r"\{(\w+)(:path)?\}", lambda m: "mail" if m[1] == "experiment" else "1", route.path)
        for key in (ADMIN, None):
            for method in ({route.method, "OPTIONS", "PATCH", "TRACE"} | {"HEAD"}) - ({"GET"} if route.streams else set()):
                if (method, path) == ("POST", f"{MAIL}/stop"):
                    continue
                answer = service.call(key, method, path, **({"json": {}} if method == "POST" else {}))
                if method == "HEAD" or answer.status_code == 304:
                    assert answer.status_code < 500
                    assert answer.headers["x-content-type-options"] == "nosniff"
                else:
                    checked(answer)
                if method in ("PATCH", "TRACE"):
                    assert answer.status_code == 405
                    assert route.method in answer.headers["allow"].split(", ")


def preflight(service: Served, path: str, origin: str, method: str) -> Any:
    headers = {"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization"}
    return service.call(None, "OPTIONS", path, headers=headers)


def allowed(answer: Any) -> str | None:
    return answer.headers.get("access-control-allow-origin")


def test_pages_of_other_sites_use_only_the_keys_that_name_them(service: Served) -> None:
    key, other = service.key(APP, origins=[SHOP]), service.key(APP, origins=["https://other.example"])
    service.service.keys._origins = (-1e9, frozenset())  # those of a second ago
    at = f"{MAIL}/decisions"
    answer = preflight(service, at, SHOP, "POST")
    assert (answer.status_code, allowed(answer), answer.headers["access-control-allow-methods"]) == (204, SHOP, "POST")
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    assert answer.headers["vary"] == "Origin"
    for path, origin, method in (
        (at, "https://evil.example", "POST"),
        (at, "null", "POST"),
        (at, SHOP + ".evil.example", "POST"),
        (at, SHOP, "GET"),  # which is for readers
        (at, SHOP, "DELETE"),
        ("/v1/keys", SHOP, "POST"),
        (f"{MAIL}/stop", SHOP, "POST"),
        (MAIL, SHOP, "GET"),
    ):
        assert allowed(preflight(service, path, origin, method)) is None, (path, origin, method)
    assert allowed(service.call(key, "POST", at, json={}, headers={"Origin": SHOP})) == SHOP
    for origin, used in (("https://evil.example", key), (SHOP, other), (SHOP, service.keys[APP]), ("null", key)):
        refused = service.call(used, "POST", at, json={}, headers={"Origin": origin})
        assert (refused.status_code, allowed(refused)) == (403, None)
    wrong = service.call(key, "POST", at, json={"n": 0}, headers={"Origin": SHOP})
    assert (wrong.status_code, allowed(wrong)) == (422, SHOP)  # a page may read why
    assert allowed(service.call(key, "POST", at, json={})) is None
    assert service.call(key, "POST", at, json={}).headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers
    reader = service.key(Role.reader, origins=[SHOP])
    assert allowed(service.call(reader, "GET", MAIL, headers={"Origin": SHOP})) is None


def test_too_many_requests(service: Served) -> None:
    key = service.key(APP, rate=1, origins=[SHOP])
    answers = [service.call(key, "POST", f"{MAIL}/decisions", json={}, headers={"Origin": SHOP}) for _ in range(8)]
    assert [a.status_code for a in answers[:3]] == [200] * 3
    late = checked(answers[-1])
    assert (late.status_code, late.headers["retry-after"], allowed(late)) == (429, "1", SHOP)


def test_options_without_a_page_says_what_is_allowed(service: Served) -> None:
    answer = checked(service.call(None, "OPTIONS", MAIL))
    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert checked(service.call(None, "OPTIONS", f"{MAIL}/decisions")).headers["allow"] == "POST, GET, HEAD, OPTIONS"
