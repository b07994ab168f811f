"""Connect: how an application asks this experiment and tells it rewards, ready to copy."""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple
from urllib.parse import quote

from ..facts import Facts
from .base import View


class Snippet(NamedTuple):
    """Code to copy."""

    id: str
    title: str
    note: str
    code: str


def connect(facts: Facts, address: str, tested: dict[str, Any] | None = None) -> View:
    """The page that shows how to connect an application.

    Args:
        facts: of the experiment.
        address: where the service is, without a slash at the end.
        tested: what a test call answered, if one was made.

    Returns:
        The view.
    """
    return View("Connect", "connect", {"snippets": snippets(facts, address), "address": address, "tested": tested})


def snippets(facts: Facts, address: str) -> list[Snippet]:
    """The code, with the name of the experiment and the address of the service filled in."""
    return [
        Snippet("curl", "curl", "any language that can send HTTP", _curl(facts, address)),
        Snippet("python", "Python", "the same methods as in a process of its own, with safe retries", _python(facts, address)),
        Snippet(
            "openfeature-python",
            "OpenFeature, Python",
            "an experiment is a flag; your code knows nothing of blts",
            _openfeature(facts, address),
        ),
        Snippet("openfeature-node", "OpenFeature, Node", "the same from JavaScript", _node(facts, address)),
    ]


def _curl(facts: Facts, address: str) -> str:
    context = _context(facts)
    asked = {"units": ["user-17"]} | ({"contexts": [context]} if context else {})
    calls = [("decisions", asked), ("rewards", {"rewards": [{"unit": "user-17", "reward": _reward(facts)}]})]
    if _is_explicit(facts):
        calls.insert(1, ("exposures", {"units": ["user-17"]}))
    lines = ['# A key of the role "app"; keep it out of browsers.', "export BLTS_KEY=blts_…"]
    for what, body in calls:
        url = f"{address}/v1/experiments/{quote(facts.name, safe='')}/{what}"
        lines += ["", f"curl {shlex.quote(url)} \\"]
        lines += [
            '  -H "Authorization: Bearer $BLTS_KEY" -H "Content-Type: application/json" \\',
            f"  -d {shlex.quote(json.dumps(body))}",
        ]
    return "\n".join(lines)


def _python(facts: Facts, address: str) -> str:
    context = _context(facts)
    asked = f", contexts=[{context!r}]" if context else ""
    shown = '\nexperiment.expose(units=["user-17"])  # once it is shown' if _is_explicit(facts) else ""
    return f"""import os
from blts.client import Client

client = Client({address!r}, os.environ["BLTS_KEY"])
experiment = client.experiment({facts.name!r})
decision = experiment.ask(units=["user-17"]{asked}).decisions[0]
print(decision.arm){shown}
experiment.tell(unit="user-17", reward={_reward(facts)})"""


def _openfeature(facts: Facts, address: str) -> str:
    context, name = _context(facts), facts.name
    attributes = f", {context!r}" if context else ""
    shown = (
        f"\nflags.track(\"exposure\", visitor, TrackingEventDetails(attributes={{'experiment': {name!r}}}))"
        if _is_explicit(facts)
        else ""
    )
    return f"""# pip install "blts[openfeature]"
import os
from blts.openfeature import Provider
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.track import TrackingEventDetails

api.set_provider(Provider({address!r}, os.environ["BLTS_KEY"]))
flags = api.get_client()
visitor = EvaluationContext("user-17"{attributes})
arm = flags.get_string_value({name!r}, {facts.control!r}, visitor){shown}
flags.track("reward", visitor, TrackingEventDetails({_reward(facts)}, {{"experiment": {name!r}}}))"""


def _node(facts: Facts, address: str) -> str:
    name = json.dumps(facts.name)
    flat = "".join(f", {json.dumps(k)}: {json.dumps(v)}" for k, v in _context(facts).items())
    shown = '\nawait track({ event: "exposure" });' if _is_explicit(facts) else ""
    return f"""// npm install @openfeature/server-sdk @openfeature/ofrep-provider
import {{ OpenFeature }} from "@openfeature/server-sdk";
import {{ OFREPProvider }} from "@openfeature/ofrep-provider";

const headers = [["Authorization", `Bearer ${{process.env.BLTS_KEY}}`]];
await OpenFeature.setProviderAndWait(new OFREPProvider({{ baseUrl: {json.dumps(address)}, headers }}));
const client = OpenFeature.getClient();
const visitor = {{ targetingKey: "user-17"{flat} }};
const arm = await client.getStringValue({name}, {json.dumps(facts.control)}, visitor);

const track = (told) => fetch({json.dumps(address + "/v1/track")}, {{
  method: "POST",
  headers: [...headers, ["Content-Type", "application/json"]],
  body: JSON.stringify({{ experiment: {name}, targetingKey: "user-17", ...told }}),
}});{shown}
await track({{ value: {_reward(facts)} }});"""


def _is_explicit(facts: Facts) -> bool:
    """Whether the experiment learns only from decisions that were told to be carried out."""
    return facts.status["exposure"] == "explicit"


def _reward(facts: Facts) -> float:
    """A reward that the experiment may have."""
    return facts.status["example_reward"]


def _context(facts: Facts) -> dict[str, Any]:
    """Example values of the declared features."""
    return dict(facts.status.get("example_context") or {})
