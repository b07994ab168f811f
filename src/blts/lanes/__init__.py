"""A `vmap` that puts the batch axis last, so that functions written for one replication run fast on a CPU.

A *lane* is one index of the batch axis: one replication, or one chain. This package rewrites JAX programs (jaxprs) and does not
depend on bandits.

**Why not `jax.vmap`.** It puts the mapped axis first: 15 arms of 1000 lanes become `[1000, 15]`. XLA turns the innermost axis
into vector instructions, and one of length 15 fills few of them; `[15, 1000]` takes half the time. `jax.vmap(f, -1, -1)` does
not help: inside, the axis moves to the front wherever two operands differ in shape. So `vmap` here maps one equation of the
program at a time and keeps the lanes last in every intermediate array. The results are those of `jax.vmap(f, -1, -1)`, up to
the rounding of sums in another order.

**Steps.**

1. `Program.of(f, *arguments)` traces `f` for one lane. Calls (`jit`, `custom_jvp`, …) are inlined, also inside loops, common
   subexpressions are eliminated, and `slice(concatenate(xs))` becomes the matching part. (`program.py`)
2. `vmap` goes through the equations. Each input is a `Value`: an array, and whether its last axis is the lanes. An equation
   without a mapped input is computed once for all lanes. Others have a rule by the name of their primitive (`rules.py`, and
   `loops.py` for `while`, `scan` and `cond`), or go to `jax.vmap`. (`mapping.py`)
3. `split` divides a function's equations into those that depend on one group of arguments alone, and the rest. What a round
   draws at random depends on its key and not on what was learned, so the loop draws for 16 rounds at once, in advance and in
   long vectors, without changes to agents or environments. `carried` tells which leaves of its state a loop must carry;
   `equal_leaves` which of them are always equal, so that one is enough (plays are counted by the loop and by many schemes).
   (`splitting.py`)

**What it assumes.** Every leaf of every argument has the lanes as its last axis, there is at least one argument, and what `f`
closes over is equal for all lanes. The result is not meant to be differentiated from outside: custom derivatives are inlined
(gradients that `f` takes itself are in its program and fine).

**Fallback to `jax.vmap`**, for one equation at a time: primitives without a rule, including higher-order ones (`checkpoint`,
`custom_linear_solve`, callbacks, …), `while` loops whose number of iterations differs between lanes, `cond` on a mapped index.
Inside those the lanes are the first axis, which is slower and equally correct. If a rule fails (it raises, or its result has the
wrong shape or type because a new JAX changed a primitive's parameters), a `RuntimeWarning` is issued and `jax.vmap` is used.
Functions with mutable arrays (`jax.new_ref`) are one equation. Equations with side effects are neither merged nor computed in
advance. What `jax.vmap` refuses is refused.

**To see it**: `print(lanes.explain(f, *arguments))` lists the equations and how each is mapped;
`jax.make_jaxpr(lanes.vmap(f))(*arguments)` is the resulting program; `lanes.split(…).program.jaxpr` is the one that was
split. `tests/lanes/test_lanes.py` compares random programs with `jax.vmap`.
"""

from .mapping import explain as explain
from .mapping import one_lane as one_lane
from .mapping import over_lanes as over_lanes
from .mapping import vmap as vmap
from .program import Program as Program
from .program import any_lane as any_lane
from .program import elementwise as elementwise
from .rules import Value as Value
from .rules import on_cpu as on_cpu
from .splitting import Split as Split
from .splitting import carried as carried
from .splitting import equal_leaves as equal_leaves
from .splitting import of_lanes as of_lanes
from .splitting import replaced as replaced
from .splitting import shared as shared
from .splitting import split as split
from .splitting import taken as taken
