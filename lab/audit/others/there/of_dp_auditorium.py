"""DP-Auditorium, from a folder that holds Google's differential-privacy repository: its testers on
outputs that were drawn elsewhere.

Its packages import everything when they are imported, also what needs Vizier and TensorFlow. Here
they are folders only, so that a tester needs what it imports itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

_PACKAGES = ("dp_auditorium", "dp_auditorium.testers", "dp_auditorium.configs")


def _module(root: str, name: str) -> Any:
    for package in _PACKAGES:
        if package not in sys.modules:
            folder = types.ModuleType(package)
            folder.__path__ = [str(Path(root, *package.split(".")))]
            sys.modules[package] = folder
    return importlib.import_module(f"dp_auditorium.{name}")


def _property(given: dict[str, Any]) -> Any:
    module = _module(given["root"], "configs.privacy_property")
    return module.ApproximateDp(given["epsilon"], given["delta"])


def _histogram(given: dict[str, Any]) -> Any:
    configs = _module(given["root"], "configs.property_tester_config")
    how = configs.HistogramPropertyTesterConfig(True, given["outputs"], 0, 0, _property(given))
    return _module(given["root"], "testers.histogram_tester").HistogramTester(how)


def _hockey_stick(given: dict[str, Any]) -> Any:
    configs = _module(given["root"], "configs.property_tester_config")
    module = _module(given["root"], "testers.hockey_stick_tester")
    training = module.make_default_hs_training_config()
    how = configs.HockeyStickPropertyTesterConfig(training, _property(given))
    return module.HockeyStickPropertyTester(how, module.make_default_hs_base_model())


_TESTERS = {"histogram": _histogram, "hockey_stick": _hockey_stick}


def testers(given: dict[str, Any]) -> list[str]:
    """Which testers can run here: one needs TensorFlow."""
    _module(given["root"], "configs.privacy_property")
    return [
        name
        for name in _TESTERS
        if name != "hockey_stick" or importlib.util.find_spec("tensorflow") is not None
    ]


def tested(given: dict[str, Any]) -> dict[str, Any]:
    """Whether a tester rejects what is stated, in either direction, and its bound on delta."""
    tester = _TESTERS[given["tester"]](given)
    with np.load(given["path"]) as samples:
        one, other = samples["one"], samples["other"]
    if given["tester"] == "hockey_stick":
        bits = np.arange(int(given["outputs"]).bit_length() - 1)
        one, other = ((codes[:, None] >> bits & 1).astype(float) for codes in (one, other))
    bound = max(
        float(tester.estimate_lower_bound(first, second, given["wrong"]))
        for first, second in ((one, other), (other, one))
    )
    return {"bound": bound, "rejected": bool(tester.reject_property(bound))}


FOUND = {"testers": testers, "tested": tested}
