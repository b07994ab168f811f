"""A client of the HTTP service, with the methods of `blts.live.Experiment`. It needs neither JAX nor a database.

    from blts.client import Client

    mail = Client("http://127.0.0.1:8000", key).experiment("mail")
    answer = mail.ask(units=["ann"])
    mail.tell(unit="ann", reward=1)

`experiment` has the methods, `connection` sends requests and repeats those that may be repeated, and `failures` are the errors that
answers become.
"""

from __future__ import annotations

from typing import Any

from ..answers import Answer as Answer
from ..answers import Decision as Decision
from ..answers import Page as Page
from ..answers import Refreshed as Refreshed
from ..answers import Told as Told
from .connection import Connection
from .experiment import RemoteExperiment as RemoteExperiment
from .failures import NotAllowed as NotAllowed


class Client:
    """A service, and a key for it. Threads may share one; each has a connection of its own, which is kept open.

    Args:
        url: where the service is, such as http://127.0.0.1:8000.
        key: an API key, `blts_…`; what it may do is said by its role.
        timeout: seconds after which a call gives up, its repetitions included.

    >>> from blts.client import Client
    >>> Client("http://127.0.0.1:8000", "blts_1_secret")
    Client('http://127.0.0.1:8000')
    """

    def __init__(self, url: str, key: str, *, timeout: float = 30.0):
        self._connection = Connection(url, key, timeout)

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close this thread's connection; another call opens one again."""
        self._connection.close()

    def experiment(self, name: str) -> RemoteExperiment:
        """An experiment by its name. Nothing is sent yet."""
        return RemoteExperiment(self._connection, name)

    def create(self, name: str, **specification: Any) -> RemoteExperiment:
        """A new experiment. The same call again is the same experiment; another one under its name is refused.

        Args:
            name: small letters, digits, - and _, since it is part of addresses and the key of a flag.
            specification: `arms`, `model`, and other settings of `Experiment.create`, as JSON can hold them.
        """
        self._connection.post("/v1/experiments", {"name": name, "specification": specification})
        return self.experiment(name)

    def experiments(self) -> list[str]:
        """The names of the experiments that the key is for, in the order of their creation."""
        return [row["name"] for row in self._connection.rows("/v1/experiments", after=None)]

    def track(
        self,
        event: str = "reward",
        value: float | None = None,
        *,
        targeting_key: str | None = None,
        decision_id: str | None = None,
        experiment: str | None = None,
    ) -> dict[str, str]:
        """Tell what became of a user. The same event again changes nothing.

        Args:
            event: "reward", "exposure", or the name of a metric.
            value: of the reward or metric.
            targeting_key: the user.
            decision_id: or a decision, with its signature where the key is of the role client.
            experiment: whose event it is. Values of a metric go to all experiments that measure it, without this.

        Returns:
            What became of it in each experiment: accepted, duplicate, conflict, unknown or invalid.
        """
        body = {"event": event, "value": value, "targetingKey": targeting_key, "decisionId": decision_id, "experiment": experiment}
        told = self._connection.post("/v1/track", {name: given for name, given in body.items() if given is not None})
        return {one["experiment"]: one["outcome"] for one in told["experiments"]}
