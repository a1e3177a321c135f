"""Measurements: `make bench TOPIC=…`, each ending with one line per figure against its goal.

No witness of what they charge is kept: their rows are made up, and their state homes are made and
removed. Places of tests have one.
"""

import os
import sys

# a program of its own, and no test
if any(word.startswith("lab.benchmarks") for word in sys.orig_argv):
    os.environ["XDG_CONFIG_HOME"] = "/dev/null/no-witness"
