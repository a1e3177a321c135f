"""What checks dpicl from outside: audits, attacks, the papers' tables, comparisons of runs,
benchmarks, and how the bundled model is trained. dpicl never imports it; it fits one version.
"""

from __future__ import annotations

from dpicl import __version__ as _dpicl
from dpicl.ground.errors import DpiclError
from dpicl.ground.installed import FROM_CLONE

__version__ = "0.1.0"
if _dpicl != __version__:
    raise DpiclError(
        f"dpicl-lab {__version__}: is installed beside dpicl {_dpicl}; expected the same version: "
        f"{FROM_CLONE} `pip install ./dpicl ./dpicl/lab`"
    )
