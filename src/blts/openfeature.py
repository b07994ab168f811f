"""A provider for OpenFeature's Python SDK: flags are experiments, and `track` tells what became of users.

Flags are evaluated by `openfeature-provider-ofrep`, which speaks the protocol that every language's SDK does. The protocol has no
tracking yet; this provider adds it with the service's own `POST /v1/track`.
"""

from __future__ import annotations

from typing import Any

from .client import Client
from .errors import ConfigError, shown

try:
    from openfeature.contrib.provider.ofrep import OFREPProvider
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.exception import TypeMismatchError
    from openfeature.flag_evaluation import FlagResolutionDetails
    from openfeature.provider import Metadata
    from openfeature.track import TrackingEventDetails
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f'The provider needs {error.name}; install it with: pip install "blts[openfeature]".', name=error.name
    ) from None


class Provider(OFREPProvider):
    """Experiments of a service as flags.

        api.set_provider(Provider("http://127.0.0.1:8000", key))
        flags = api.get_client()
        arm = flags.get_string_value("mail", "A", EvaluationContext("ann"))
        flags.track("reward", EvaluationContext("ann"), TrackingEventDetails(1, {"experiment": "mail"}))

    Args:
        url: where the service is.
        key: an API key of the role app; with one of the role client events are told by decision id alone.
        timeout: seconds after which an evaluation gives the default. Events, which are sent again while the service cannot be
            reached, may take six times as long.

    >>> from blts.openfeature import Provider
    >>> Provider("http://127.0.0.1:8000", "blts_1_secret").get_metadata().name
    'blts'
    """

    def __init__(self, url: str, key: str, *, timeout: float = 5.0):
        super().__init__(url, headers_factory=lambda: {"Authorization": f"Bearer {key}"}, timeout=timeout)
        self._service = Client(url, key, timeout=6 * timeout)

    def get_metadata(self) -> Metadata:
        """Who provides."""
        return Metadata(name="blts")

    def shutdown(self) -> None:
        """Close the connections."""
        self.session.close()
        self._service.close()

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """A number. One without a fraction is also taken, which JSON does not tell from an integer."""
        try:
            return super().resolve_float_details(flag_key, default_value, evaluation_context)
        except TypeMismatchError:
            default: Any = default_value  # not as an integer: it may be NaN
            found: Any = super().resolve_integer_details(flag_key, default, evaluation_context)
            if isinstance(found.value, bool):
                raise
            found.value = float(found.value)
            return found

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Tell what became of a user. Unlike an evaluation, which falls back to the default, this raises: a reward that is not told
        is lost. It returns when the event is stored. The same event again changes nothing, nor does one of an unknown user.

        Args:
            tracking_event_name: "reward", "exposure", or the name of a metric.
            evaluation_context: whose targeting key is the user.
            tracking_event_details: the value; and as attributes the "experiment", which rewards and exposures need, or instead of a
                user the "decisionId" from the flag's metadata.

        Raises:
            ConfigError: it says too little, contradicts what was told before, or no such reward is possible.
            BltsError: the service does not take it, or cannot be reached.
        """
        details = tracking_event_details or TrackingEventDetails()
        experiment, decision = (_text(details, name) for name in ("experiment", "decisionId"))
        user = None if decision is not None or evaluation_context is None else evaluation_context.targeting_key
        told = self._service.track(
            tracking_event_name, details.value, targeting_key=user, decision_id=decision, experiment=experiment
        )
        for name, outcome in told.items():
            if outcome in ("conflict", "invalid"):
                raise ConfigError(f"The experiment {name!r} did not take the event {tracking_event_name!r}: {outcome}.")


def _text(details: TrackingEventDetails, name: str) -> str | None:
    """An attribute of an event (`ConfigError` where it is no text)."""
    value = details.attributes.get(name)
    if not isinstance(value, str | None):
        raise ConfigError(f"{name} must be text; got {shown(value)}.")
    return value
