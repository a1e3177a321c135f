"""Mistakes that the tests must notice, brought back one by one: `python -m tools.mutants`, or
`make mutants`.

The list is `tests/net/mutants.yaml`. A mutant is a piece of the product and what stands in its
place. It is found as a syntax tree, in whichever file it stands, so that it survives moves and
reformatting; `heirs.yaml` here has what became of pieces that were rewritten, and
`tests/net/caught_by.json` the test that is tried first.
"""
