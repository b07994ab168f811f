"""Real OpenFeature clients: the Python SDK with the protocol's provider and with ours, and those of JavaScript."""

from __future__ import annotations

import json
import math
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

from blts.errors import ConfigError
from blts.live import Experiment, repeats
from blts.openfeature import Provider
from blts.service.roles import Role
from documents import ROOT, blocks
from running_service import key_of, running
from served import CONVERSIONS, experiment_in

UNITS = [f"user-{i}" for i in range(12)]
VALUES = {"A": {"value": 1}, "B": {"value": 2.5}, "C": {"value": 3}}


@pytest.fixture
def url(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with an experiment; services notice at once what is done to it."""
    monkeypatch.setattr(repeats, "FRESH", 0.0)
    found = f"sqlite:///{tmp_path / 'blts.db'}"
    experiment_in(found).close()
    return found


@pytest.fixture(params=["the protocol's provider", "ours"])
def provider(request: pytest.FixtureRequest) -> Any:
    """How a provider is made from an address and a key."""
    if request.param == "ours":
        return Provider
    return lambda address, key: OFREPProvider(address, headers_factory=lambda: {"Authorization": f"Bearer {key}"})


def client_of(provider: Any) -> OpenFeatureClient:
    api.set_provider(provider)
    return api.get_client()


@pytest.fixture(autouse=True)
def _no_provider_stays() -> Iterator[None]:
    yield
    api.clear_providers()


def arms(flags: OpenFeatureClient, units: list[str] = UNITS) -> list[str]:
    return [flags.get_string_value("mail", "the default", EvaluationContext(unit)) for unit in units]


def test_decisions_are_those_of_an_experiment_and_stay_across_a_restart(url: str, provider: Any) -> None:
    key = key_of(url, Role.app)
    expected = [d.arm for d in experiment_in("sqlite://").ask(units=UNITS).decisions]
    with running(url) as address:
        before = arms(client_of(provider(address, key)))
    with running(url, urlsplit(address).port or 0) as again:
        assert again == address
        assert arms(client_of(provider(again, key))) == before == expected


def test_a_flag_of_a_paused_or_stopped_experiment(url: str, provider: Any) -> None:
    experiment = Experiment.open(url, "mail")
    with running(url) as address:
        flags = client_of(provider(address, key_of(url, Role.client)))
        known = arms(flags)
        experiment.pause()
        details = flags.get_string_details("mail", "the default", EvaluationContext("new"))
        assert (details.value, details.reason, details.error_code) == ("the default", Reason.DISABLED, None)
        assert arms(flags) == known
        experiment.resume()
        experiment.stop("C")
        details = flags.get_string_details("mail", "the default", EvaluationContext("newer"))
        assert (details.value, details.variant, details.reason) == ("C", "C", Reason.STATIC)
        assert set(arms(flags)) == {"C"}


def test_errors_give_the_default_and_say_why(url: str, provider: Any) -> None:
    user = EvaluationContext("ann")
    with running(url) as address:
        flags = client_of(provider(address, key_of(url, Role.app)))
        found = {
            name: flags.get_string_details(flag, "the default", context).error_code
            for name, flag, context in (("unknown", "nowhere", user), ("nobody", "mail", EvaluationContext()))
        }
        assert found == {"unknown": ErrorCode.FLAG_NOT_FOUND, "nobody": ErrorCode.TARGETING_KEY_MISSING}
        flags = client_of(provider(address, "blts_00000000_" + "x" * 43))
        assert flags.get_string_value("mail", "the default", user) == "the default"


def test_our_provider_tells_rewards_and_takes_whole_numbers(url: str) -> None:
    Experiment.create(url, "price", VALUES, CONVERSIONS, sampler="exact", batching="external", seed=8).close()
    experiment, details = Experiment.open(url, "mail"), TrackingEventDetails
    with running(url) as address:
        flags = client_of(Provider(address, key_of(url, Role.app)))
        prices = {flags.get_float_value("price", 9.5, EvaluationContext(unit)) for unit in UNITS}
        assert prices == {1.0, 2.5, 3.0}
        assert {type(price) for price in prices} == {float}
        assert {flags.get_float_value("price", math.nan, EvaluationContext(unit)) for unit in UNITS} == prices
        arms(flags)
        ann, bob, new = (EvaluationContext(unit) for unit in (*UNITS[:2], "new"))
        for _ in range(2):
            flags.track("reward", ann, details(1, {"experiment": "mail"}))
        decision = flags.get_string_details("mail", "", bob).flag_metadata["decisionId"]
        flags.track("reward", bob, details(0, {"decisionId": decision}))
        flags.track("reward", new, details(1, {"experiment": "mail"}))
        assert experiment.status()["entries"] == 2
        for wrong in (
            details(0, {"experiment": "mail"}),
            details(1),
            details(None, {"experiment": "mail"}),
            details(1, {"experiment": 3}),
        ):
            with pytest.raises(ConfigError):
                flags.track("reward", ann, wrong)
        assert experiment.status()["entries"] == 2
        flags = client_of(Provider(address, key_of(url, Role.client)))
        signed = flags.get_string_details("mail", "", EvaluationContext(UNITS[2])).flag_metadata["decisionId"]
        flags.track("reward", None, details(1, {"decisionId": signed}))
        assert experiment.status()["entries"] == 3


PACKAGES = ("server-sdk", "ofrep-provider", "web-sdk", "ofrep-web-provider")
SCRIPT = """
import { OpenFeature } from "@openfeature/server-sdk";
import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OpenFeature as Web } from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";

const [address, key, ...units] = process.argv.slice(2);
const headers = [["Authorization", `Bearer ${key}`]];
await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: address, headers }));
const server = [];
for (const targetingKey of units)
  server.push((await OpenFeature.getClient().getStringDetails("mail", "the default", { targetingKey })).value);
const web = [];
const options = { baseUrl: address, headers, pollInterval: -1, cacheMode: "disabled" };
for (const targetingKey of units) {
  await Web.setContext({ targetingKey });
  if (!web.length) await Web.setProviderAndWait(new OFREPWebProvider(options));
  web.push(Web.getClient().getStringDetails("mail", "the default"));
}
await Web.close();
const { value, reason, flagMetadata } = web.at(-1);
console.log(JSON.stringify({ server, web: web.map((one) => one.value), last: { value, reason, ...flagMetadata } }));
"""


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with OpenFeature's packages for servers and for browsers."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    folder = tmp_path_factory.mktemp("javascript")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / "flags.js").write_text(SCRIPT)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *(f"@openfeature/{name}" for name in PACKAGES)]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not get OpenFeature's packages within a minute")
    if done.returncode:
        pytest.skip(f"npm cannot get OpenFeature's packages: {done.stderr[-200:]}")
    return folder


def flags_in(javascript: pathlib.Path, address: str, key: str, units: list[str]) -> dict[str, Any]:
    command = ["node", "flags.js", address, key, *units]
    done = subprocess.run(command, cwd=javascript, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_javascript_of_the_howto(url: str, javascript: pathlib.Path) -> None:
    (script,) = [block.text for block in blocks((ROOT / "docs" / "howto-serve.md").read_text()) if block.language == "js"]
    (javascript / "howto.js").write_text(script)
    experiment_in(url, "subject").close()
    with running(url) as address:
        own = os.environ | {"BLTS_URL": address, "BLTS_KEY": key_of(url, Role.client)}
        done = subprocess.run(["node", "howto.js"], cwd=javascript, env=own, capture_output=True, text=True, timeout=60)
    value, reason, told = done.stdout.split(maxsplit=2)
    assert value in ("A", "B", "C"), done.stderr
    assert (reason, json.loads(told)["experiments"][0]["outcome"]) == ("SPLIT", "accepted")


def test_clients_of_javascript_for_servers_and_browsers(url: str, javascript: pathlib.Path) -> None:
    experiment, key = Experiment.open(url, "mail"), key_of(url, Role.client)
    expected = [d.arm for d in experiment_in("sqlite://").ask(units=UNITS).decisions]
    with running(url) as address:
        before = flags_in(javascript, address, key, UNITS)
    assert (before["server"], before["web"]) == (expected, expected)
    assert before["last"]["reason"] == "SPLIT"
    assert "." in before["last"]["decisionId"]
    experiment.pause()
    with running(url) as address:
        after = flags_in(javascript, address, key, [*UNITS, "new"])
        experiment.resume()
        experiment.stop("B")
        stopped = flags_in(javascript, address, key, [*UNITS, "newer"])
    assert after["server"] == after["web"] == [*expected, "the default"]
    assert set(stopped["server"]) == set(stopped["web"]) == {"B"}
    assert stopped["last"]["reason"] == "STATIC"
