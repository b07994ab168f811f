"""Rehearsals: a specification simulated many times in memory, with assumed arms (`assumptions`), before anything is created.

`planning` checks what is assumed. `simulating` decides and learns (`versions`) with the code of real experiments and acts as their
worker does (`acting`). `results` and `rules` have what came of it, and `figure` draws it. `sizing` finds
how many units an experiment needs, by rehearsals of growing size, and `sizing_figure` draws that.
"""
