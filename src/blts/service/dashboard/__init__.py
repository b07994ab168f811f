"""The pages for people: rendered on the server, complete without JavaScript, and asking nothing of any other host.

A request becomes a `Visit` (`visits`): who is signed in, what they may do, what the form says. A handler (`reading`, `acting`,
`making`, `doors`) asks `blts.live` for plain data, a file of `views/` makes of it what a page shows, and `pages` fills a template
with that. `numbers`, `scales`, `tables` and `charts` turn numbers into text, axes, tables and SVG; `verdict` writes the sentence at
the top of an experiment, `terms` explains words, `drafts` reads the form of a new experiment. `routes` has every address.
"""
