"""`python -m dpicl.cli`."""

from dpicl.cli import main

main()
