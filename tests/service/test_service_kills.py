"""Clients that go on while the service and its worker are killed: one decision a unit, every acknowledged reward once."""

from __future__ import annotations

import http.client
import random
import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa

from blts.live import Experiment, schema
from blts.live.database import Database
from blts.service.keys import Keys
from processes import Process
from served import experiment_in

DECISIONS, REWARDS = "/v1/experiments/mail/decisions", "/v1/experiments/mail/rewards"


class Client(threading.Thread):
    """Asks for one unit after another and tells its reward, each again until it is answered."""

    def __init__(self, process: Process, key: str, number: int, units: int):
        super().__init__(daemon=True)
        self.process, self.key, self.number, self.units = process, key, number, units
        self.decided: dict[str, tuple[str, str]] = {}
        """The id and the arm of every unit that was answered."""
        self.told: dict[str, float] = {}
        """Rewards that were acknowledged, by decision id."""
        self.failed: str | None = None

    def run(self) -> None:
        for i in range(self.units):
            unit = f"client {self.number} unit {i}"
            answer = self.until_answered(DECISIONS, {"units": [unit]})
            if answer is None:
                return
            decision = answer["decisions"][0]
            self.decided[unit] = decision["id"], decision["arm"]
            reward = float((i + self.number) % 3 == 0)
            told = self.until_answered(REWARDS, {"rewards": [{"decision_id": decision["id"], "reward": reward}]})
            if told is None or told["accepted"] + told["duplicate"] != 1:
                self.failed = f"{unit}: {told}"
                return
            self.told[decision["id"]] = reward

    def until_answered(self, path: str, body: Any) -> Any:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            try:
                status, answer = self.process.call("POST", path, self.key, body)
            except (OSError, http.client.HTTPException, ValueError):
                status, answer = 503, None
            if status == 200:
                return answer
            if status != 503:
                self.failed = f"{status}: {answer}"
                return None
            time.sleep(0.02)
        self.failed = "no answer in ten minutes"
        return None


def losses(url: str, clients: list[Client]) -> list[str]:
    """What was lost or doubled, against what the clients were told."""
    mail, found = Experiment.open(url, "mail"), [client.failed for client in clients if client.failed]
    units = {unit: decided for client in clients for unit, decided in client.decided.items()}
    for unit, (decision_id, arm) in units.items():
        now = mail.ask(units=[unit]).decisions[0]
        if (now.id, now.arm) != (decision_id, arm):
            found.append(f"{unit} had {decision_id} and has {now.id}")
    with mail.database.read() as c:
        decisions = c.execute(sa.select(sa.func.count()).select_from(schema.decisions)).scalar_one()
        rewards = {t: (n, r) for t, n, r in c.execute(_told()).all()}
    if decisions != len(units):
        found.append(f"{decisions} decisions of {len(units)} units")
    for client in clients:
        for decision_id, reward in client.told.items():
            stored = rewards.get(int(decision_id.rpartition("-")[2]))
            if stored != (1, reward):
                found.append(f"{decision_id}: told {reward}, stored {stored}")
    return found + mail.verify()


def _told() -> Any:
    table = schema.rewards
    return sa.select(table.c.t, sa.func.count(), sa.func.max(table.c.reward)).group_by(table.c.t)


def wait_for_answers(running: list[Client], more: float) -> None:
    """Wait until so many more requests are answered, however fast this machine is; or for two minutes."""

    def answered() -> int:
        return sum(len(client.decided) + len(client.told) for client in running)

    goal, deadline = answered() + more, time.monotonic() + 120
    while answered() < goal and time.monotonic() < deadline and any(client.is_alive() for client in running):
        time.sleep(0.005)


def killed(url: str, clients: int, units: int, kills: int) -> list[Client]:
    """Run clients while the service, and between that its worker, are killed and started again."""
    experiment_in(url, refresh_rewards=50).close()
    key = Keys(Database(url)).create("clients", "app", by="test")[1]
    process, chance = Process(url), random.Random(kills)
    process.start()
    running = [Client(process, key, number, units) for number in range(clients)]
    for client in running:
        client.start()
    try:
        for _ in range(kills):
            if chance.random() < 0.25:  # while it starts
                time.sleep(chance.uniform(0.05, 1.0))
            else:
                wait_for_answers(running, chance.uniform(0.0, 1.6) * 2 * clients * units / kills)
            if chance.random() < 0.3:
                process.kill_worker()
                time.sleep(chance.uniform(0.0, 0.5))
            process.kill()
            process.start()
        for client in running:
            client.join(600)
    finally:
        process.stop()
    return running


def test_nothing_is_lost_when_the_service_is_killed(url: str) -> None:
    clients = killed(url, clients=8, units=40, kills=3)
    assert sum(len(client.told) for client in clients) == 8 * 40
    assert losses(url, clients) == []
    forgotten = next(iter(clients[0].told))  # the mutants: a reward that was never stored, and another decision
    clients[0].told[forgotten] += 1.0
    clients[1].decided["client 1 unit 0"] = ("x-1", "A")
    assert len(losses(url, clients)) == 2


@pytest.mark.slow
def test_nothing_is_lost_in_a_hundred_kills(url: str) -> None:
    clients = killed(url, clients=64, units=1000, kills=100)
    assert sum(len(client.told) for client in clients) == 64_000
    assert losses(url, clients) == []
