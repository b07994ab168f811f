"""Connect: how an application asks this experiment and tells it rewards, ready to copy."""

from __future__ import annotations

import json
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
    name, reward = facts.name, 1 if facts.unit == "rate" else 12.5
    base = f"{address}/v1/experiments/{quote(name, safe='')}"
    context = _context(facts)
    curl_context = f', "contexts": [{json.dumps(context)}]' if context else ""
    context_argument = f", contexts=[{context!r}]" if context else ""
    flat = "".join(f", {json.dumps(k)}: {json.dumps(v)}" for k, v in context.items())
    attributes = f", {context!r}" if context else ""
    curl = f"""# A key of the role "app"; keep it out of browsers.
export BLTS_KEY=blts_…

curl {base}/decisions \\
  -H "Authorization: Bearer $BLTS_KEY" -H "Content-Type: application/json" \\
  -d '{{"units": ["user-17"]{curl_context}}}'

curl {base}/rewards \\
  -H "Authorization: Bearer $BLTS_KEY" -H "Content-Type: application/json" \\
  -d '{{"rewards": [{{"unit": "user-17", "reward": {reward}}}]}}'"""
    python = f"""import os
from blts.client import Client

client = Client({address!r}, os.environ["BLTS_KEY"])
experiment = client.experiment({name!r})
decision = experiment.ask(units=["user-17"]{context_argument}).decisions[0]
print(decision.arm)
experiment.tell(unit="user-17", reward={reward})"""
    feature = f"""# pip install "blts[openfeature]"
import os
from blts.openfeature import Provider
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.track import TrackingEventDetails

api.set_provider(Provider({address!r}, os.environ["BLTS_KEY"]))
flags = api.get_client()
visitor = EvaluationContext("user-17"{attributes})
arm = flags.get_string_value({name!r}, {facts.control!r}, visitor)
flags.track("reward", visitor, TrackingEventDetails({reward}, {{"experiment": {name!r}}}))"""
    node = f"""// npm install @openfeature/server-sdk @openfeature/ofrep-provider
import {{ OpenFeature }} from "@openfeature/server-sdk";
import {{ OFREPProvider }} from "@openfeature/ofrep-provider";

const headers = [["Authorization", `Bearer ${{process.env.BLTS_KEY}}`]];
await OpenFeature.setProviderAndWait(new OFREPProvider({{ baseUrl: {json.dumps(address)}, headers }}));
const client = OpenFeature.getClient();
const visitor = {{ targetingKey: "user-17"{flat} }};
const arm = await client.getStringValue({json.dumps(name)}, {json.dumps(facts.control)}, visitor);

await fetch({json.dumps(address + "/v1/track")}, {{
  method: "POST",
  headers: [...headers, ["Content-Type", "application/json"]],
  body: JSON.stringify({{ experiment: {json.dumps(name)}, targetingKey: "user-17", value: {reward} }}),
}});"""
    return [
        Snippet("curl", "curl", "any language that can send HTTP", curl),
        Snippet("python", "Python", "the same methods as in a process of its own, with safe retries", python),
        Snippet("openfeature-python", "OpenFeature, Python", "an experiment is a flag; your code knows nothing of blts", feature),
        Snippet("openfeature-node", "OpenFeature, Node", "the same from JavaScript", node),
    ]


def _context(facts: Facts) -> dict[str, Any]:
    """Example values of the declared features."""
    return dict(facts.status.get("example_context") or {})
