"""Runs a function that is written for one replication in all replications at once, fast on a CPU.

A *lane* is one index of the mapped axis: one replication, or one chain. This package knows nothing of bandits; it rewrites
JAX programs (jaxprs).

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
   draws at random depends on its key and not on what was learned, so the loop draws for 16 rounds at once, ahead of them, in
   long vectors; whoever writes an agent or an environment need not know. `carried` says which leaves of its state a loop has
   to carry. (`splitting.py`)

**What it assumes.** Every leaf of every argument has the lanes as its last axis, there is at least one argument, and what `f`
closes over is equal for all lanes. The result is not meant to be differentiated from outside: custom derivatives are inlined
(gradients that `f` takes itself are in its program and fine).

**What it does not know** it leaves to `jax.vmap`, for that one equation: primitives without a rule, higher-order ones too
(`checkpoint`, `custom_linear_solve`, callbacks, …), `while` loops that end after a different number of turns in each lane,
`cond` on a mapped index. Inside those the lanes are first, which is slower and as right. A rule that fails (it raises, or its
result has not the shape and type that the program says, because a new JAX changed a primitive's parameters) is a
`RuntimeWarning`, and `jax.vmap` takes over. Functions with mutable arrays (`jax.new_ref`) are not taken apart. What has side
effects is neither merged nor computed ahead. What `jax.vmap` refuses is refused.

**To see it**: `print(lanes.explain(f, *arguments))` lists the equations and how each is mapped;
`jax.make_jaxpr(lanes.vmap(f))(*arguments)` is the resulting program; `lanes.split(…).program.jaxpr` is the one that was
split. `tests/lanes/test_lanes.py` compares random programs with `jax.vmap`.
"""

from .mapping import explain as explain
from .mapping import on_cpu as on_cpu
from .mapping import one_lane as one_lane
from .mapping import vmap as vmap
from .program import Program as Program
from .program import elementwise as elementwise
from .rules import Value as Value
from .splitting import Split as Split
from .splitting import carried as carried
from .splitting import of_lanes as of_lanes
from .splitting import replaced as replaced
from .splitting import split as split
from .splitting import taken as taken
