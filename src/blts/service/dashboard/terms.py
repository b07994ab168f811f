"""The words that a page uses and not everybody knows, each explained in two sentences."""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """A word and what it means."""

    word: str
    means: str


TERMS = {
    "p-best": Term(
        "P(best)",
        "The probability that this arm has the highest mean reward, given all rewards that count. "
        "By itself it is no proof: looked at often, it passes 95 % in many experiments whose arms are all equal.",
    ),
    "loss": Term(
        "Expected loss",
        "How much reward a unit you would give up, on average, if you chose this arm and another one were better. "
        "Small means safe to choose.",
    ),
    "evidence": Term(
        "Evidence (E)",
        "How strongly the rewards speak for the leader against another arm. It stays valid however often one looks: "
        "with E above what is needed, the chance that a wrong winner is ever named is at most 5 %.",
    ),
    "propensity": Term(
        "Propensity",
        "The probability with which a decision gave each arm, stored with the decision. Unbiased estimates weight rewards by it.",
    ),
    "lift": Term(
        "Lift", "How much more an arm earns a unit than the control, with the interval that has it with probability 95 %."
    ),
    "aipw": Term(
        "AIPW",
        "Augmented inverse propensity weighting: the estimate of an arm's mean reward that an adaptive allocation does not bias. "
        "Read this one if the four differ.",
    ),
    "ipw": Term(
        "IPW",
        "Inverse propensity weighting: each reward counts one over the probability of its decision. Unbiased, but wider than AIPW.",
    ),
    "naive": Term(
        "Naive mean", "The plain average of an arm's rewards. After an adaptive allocation it is biased, mostly downwards."
    ),
    "posterior": Term("Posterior", "What the model believes of an arm's mean reward after all rewards that count, with its prior."),
    "effective": Term(
        "Effective sample size",
        "How many equally weighted rewards the weighted ones are worth. When a few decisions have most of the weight, "
        "it is far below their number.",
    ),
    "sample-ratio": Term(
        "Sample ratio",
        "Whether arms were played as often as their propensities say. If not, something between the decision and the "
        "visitor is broken.",
    ),
    "feedback-share": Term(
        "Feedback by arm",
        "Whether decisions of all arms count equally often. If not, averages over those that count need not be what an arm earns.",
    ),
    "rhat": Term("R-hat", "How far the sampler's chains disagree. Near 1 they agree; a refresh above the limit is not used."),
    "floor": Term(
        "Floor", "The share of decisions that every arm keeps, whatever has been learned, so that estimates stay possible."
    ),
    "window": Term(
        "Window", "How long a reward is awaited after its decision. When it is over, silence counts as the default reward."
    ),
    "batch": Term(
        "Batch",
        "Decisions that are made with the same policy. When a batch closes and its rewards are in, the policy is refreshed.",
    ),
    "gain": Term(
        "Gain over equal shares", "What the decisions earned more than they would have with every arm played equally often."
    ),
}
