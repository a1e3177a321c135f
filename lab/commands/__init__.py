"""The commands that this package adds to `dpicl`, by the entry points in its pyproject.toml; every
`dpicl` command loads these modules, so that each imports what it needs when it is called.
"""
