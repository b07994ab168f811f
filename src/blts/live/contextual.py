"""What a specification with contexts can have, and what it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .. import models, registry
from ..errors import BltsError, ConfigError, shown, type_and_message
from .checks import check_alike

if TYPE_CHECKING:
    from .policy import Built
    from .spec import Spec

NO_FEATURES = "This model needs a context for each decision; declare features=…, or use a model without contexts."


def prior_in_words(spec: Spec, model: models.Model) -> str:
    """What is believed of θ before the rewards, where the model says it by a mean and an sd."""
    mean, sd = (getattr(model, name, None) for name in ("prior_mean", "prior_sd"))
    if mean is None or sd is None or len(np.unique(mean)) > 1 or np.size(sd) > 1:
        return "that of its class"
    centre, spread = (float(np.ravel(x)[0]) for x in (mean, sd))
    return f"prior_mean {centre:g} and prior_sd {spread:g} for each of the {spec.width} numbers of θ"


def check_declared(spec: Spec) -> None:
    """Refuse what features exclude, such as metrics, and features that nothing depends on (`ConfigError`); nothing is built yet."""
    named = None if spec.model.name is None else registry.find("model", spec.model.name)
    if named is not None and named.about.get("contextual") and not spec.features:
        raise ConfigError(NO_FEATURES)
    if not isinstance(spec.shared, bool):
        raise ConfigError(f"shared must be true or false; got {shown(spec.shared)}.")
    if (spec.shared or spec.arm_features) and not spec.features:
        raise ConfigError("shared and arm_features are for decisions with contexts; declare features=… too.")
    if spec.arm_features and not spec.shared:
        raise ConfigError("Features of arms say nothing where every arm has its own θ; give shared=True too.")
    for feature in (*spec.features, *spec.arm_features):
        check_alike(f"The levels of {feature.name}", feature.levels or ())
    if spec.features and (spec.metrics or spec.objective):
        raise ConfigError("Metrics compare arms as if all contexts were alike; leave out metrics and objective with features.")
    if spec.features and spec.stop is not None and (spec.stop.p_best is not None or spec.stop.loss is not None):
        raise ConfigError("With features no winner is named; let the stopping rule have units or until alone.")


def check_contextual(spec: Spec, built: Built) -> None:
    """Refuse a model without contexts where there are features, or whose θ has another width; and the reverse (`ConfigError`)."""
    if not spec.features:
        if built.model.contextual:
            raise ConfigError(NO_FEATURES)
        return
    if not built.model.contextual:
        raise ConfigError(f"{spec.model.words} has no contexts; take a model that has, such as linear, or leave out features.")
    own = models.first_arm(built.model)
    numbers = (jax.ShapeDtypeStruct((size,), jnp.result_type(float)) for size in (own.dim, spec.width))
    try:
        jax.eval_shape(lambda theta, x: own.mean_reward(theta, x, jnp.asarray(0)), *numbers)
    except BltsError as error:
        columns = spec.encoding.columns if spec.encoding else []
        raise ConfigError(f"The features are {spec.width} numbers ({', '.join(columns)}); {error}") from None
    except Exception as error:  # whatever a user's model does
        raise ConfigError(f"mean_reward of {type(own).__name__} cannot be evaluated ({type_and_message(error)}).") from error
