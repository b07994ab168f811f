"""Live experiments: ask for decisions, tell rewards when they come, lose nothing.

How one reward travels, and which file each step is in:

1. `creating` stores an experiment: a `Spec` (`spec`, made of `parts`, with the prior that `priors` reads), its arms, and policy
   version 1. `Experiment` (`experiment`) has a method for everything below; the methods work on a `Session` (`session`), which
   keeps what is costly to build.
2. `asking` makes decisions with the policy in use (`policy` computes them, without a database) and stores each with its arm and
   its propensities before it returns them.
3. `telling` reads a (decision id, reward) pair, checks it against the decision and the model (`checks`), and appends it to the
   ledger; totals become single rewards first (`aggregate`). Corrections and cancellations are further entries of the same decision.
   `entries` is what all changes write with, each in one transaction of the `database` (tables: `schema`).
4. `refreshing` closes the batch. `ledger` reads which rewards stand: the last entry of each decision. `priors` fits a prior that is
   learned to them (`prior_families`, for each kind of model), and `learning` gives them to the agent in the order of their
   decisions. `policy.freeze` computes the propensities of the new state, and the result is stored as the next policy version
   (arrays as text: `encoding`). A version whose diagnostics fail is stored and not used. Of a `private` experiment it is noisy sums
   of the rewards that are new (`releases`) that the agent is given.
5. `export` joins decisions, propensities and rewards into one table. `report` makes of it what may be concluded (`conclusions`):
   which rewards count (`counted`), whether the model fits them (`misfit`), naive, IPW and AIPW means (`estimates`), the posterior
   (`posterior`, `lift`), evidence of a difference (`evidence`), and a `recommendation`. `reports` keeps a report of every policy
   version; `figures` draws; `status` says where the experiment stands.
6. `metrics` are guardrails and secondary metrics, told with `measuring` and compared with the control by `guardrails`; `objective`
   makes rewards of several of them. `stopping` says when an experiment has its answer, and a `worker` acts on both.
7. `verify` computes every decision and refresh again from the ledger and compares them with what is stored, bit for bit.

`rehearsal` runs a specification many times in memory, with assumed arms, before anything is created: with the same `policy`,
`learning` and `closing`, which has the rules of when a refresh is due and what it learns from; its `sizing` finds how many units an
experiment needs. `page` makes one page of a report;
`request` checks what is asked and `combining` brings the asks of many threads together; `jobs` are what a worker is asked to do,
under `leases`; `pages` and `overview` are for people and programs that look; `chain` shows whether anything stored was changed.

`arms` adds and retires arms, each time with a policy version of its own. `answers` are the types that `Experiment` returns.
"""

try:
    import sqlalchemy as sqlalchemy
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        'Live experiments need SQLAlchemy; install it with: pip install "blts[live]".', name="sqlalchemy"
    ) from None

from ..reading import Report as Report
from .answers import Answer as Answer
from .answers import Decision as Decision
from .answers import Refreshed as Refreshed
from .answers import Told as Told
from .creating import SharedSeed as SharedSeed
from .experiment import Experiment as Experiment
from .parts import Arm as Arm
from .rehearsal.results import Rehearsal as Rehearsal
from .rehearsal.simulating import rehearse as rehearse
from .rehearsal.sizing import Sizing as Sizing
from .rehearsal.sizing import plan as plan
from .spec import Spec as Spec
