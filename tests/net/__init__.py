"""What a user gets, as it was: a net under any change of how the product is built.

Names of releases, bytes that are handed out, charges and exit codes of a few hundred commands
stand in golden.json. The tests touch nothing inside: they run `dpicl`, `python -m dpicl.client` and
the public names of `dpicl`, with documented files and environment variables. Secret keys are made
constant from outside (`fixed/sitecustomize.py`).

A change that keeps its promises edits no file of this folder. One that is meant to change bytes,
names or prices says so in CHANGELOG.md and writes the values again: `python -m tests.net.write`.
"""
