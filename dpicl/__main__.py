"""`python -m dpicl`."""

from dpicl.cli import main

main()
