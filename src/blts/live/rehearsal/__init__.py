"""Rehearsals: a specification simulated many times in memory, with assumed arms (`assumptions`), before anything is created.

`planning` checks what is assumed, `simulating` decides and learns with the code of real experiments, `results` has what came of it,
and `figure` draws it.
"""
