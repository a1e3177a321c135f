"""A plugin of pytest: OpenDP's measurements of whole numbers are dpicl's, which another process
draws, so that OpenDP's own tests test them. All others stay OpenDP's.

DPICL_OURS is the command of that process, in JSON.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections import Counter
from typing import Any

import opendp.measurements as theirs
import opendp.prelude as dp

dp.enable_features("contrib", "honest-but-curious")
_THEIRS = {name: getattr(theirs, f"make_{name}") for name in ("laplace", "gaussian", "noisy_max")}
_drawn = Counter[str]()
_process: list[subprocess.Popen[str]] = []


def _ours(**job: Any) -> Any:
    """What the process answers."""
    if not _process:
        command = json.loads(os.environ["DPICL_OURS"])
        _process.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    stdin, stdout = _process[0].stdin, _process[0].stdout
    assert stdin is not None and stdout is not None
    print(json.dumps(job), file=stdin, flush=True)
    if job["wanted"] == "drawn":
        _drawn[job["mechanism"]] += 1
    return json.loads(stdout.readline())


def _is_whole(domain: Any) -> bool:
    return str(domain) in ("AtomDomain(T=i32)", "VectorDomain(AtomDomain(T=i32))")


def _drawing(mechanism: str, **how: Any) -> Any:
    def drawn(value: Any) -> Any:
        several = isinstance(value, list)
        values = value if several else [value]
        outputs = _ours(wanted="drawn", mechanism=mechanism, values=values, **how)
        return outputs if several else outputs[0]

    return drawn


def _priced(mechanism: str, **how: Any) -> Any:
    return lambda distance: _ours(
        wanted="priced", mechanism=mechanism, distance=float(distance), **how
    )


def make_laplace(input_domain: Any, input_metric: Any, scale: float, **more: Any) -> Any:
    """Ours for whole numbers."""
    if not _is_whole(input_domain) or not scale or more.get("k") is not None:
        return _THEIRS["laplace"](input_domain, input_metric, scale, **more)
    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        dp.max_divergence(),
        _drawing("noisy_count", scale=scale),
        _priced("noisy_count", scale=scale),
    )


def make_gaussian(input_domain: Any, input_metric: Any, scale: float, **more: Any) -> Any:
    """Ours for whole numbers."""
    if not _is_whole(input_domain) or not scale or more.get("k") is not None:
        return _THEIRS["gaussian"](input_domain, input_metric, scale, **more)
    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        dp.zero_concentrated_divergence(),
        _drawing("discrete_gaussian", scale=scale),
        _priced("discrete_gaussian", scale=scale),
    )


def make_noisy_max(
    input_domain: Any, input_metric: Any, output_measure: Any, scale: float, negate: bool = False
) -> Any:
    """Ours for pure privacy."""
    if output_measure != dp.max_divergence() or not scale or negate:
        return _THEIRS["noisy_max"](input_domain, input_metric, output_measure, scale, negate)
    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        output_measure,
        lambda scores: _ours(wanted="drawn", mechanism="noisy_max", values=scores, scale=scale),
        _priced("noisy_max", scale=scale),
    )


def make_randomized_response(categories: Any, prob: float, T: Any = None) -> Any:
    """Ours."""
    known = list(categories)
    how = {"epsilon": math.log(prob * (len(known) - 1) / (1 - prob)), "categories": len(known)}
    draw = _drawing("randomised_response", **how)
    return dp.m.make_user_measurement(
        dp.atom_domain(T=type(known[0])),
        dp.discrete_distance(),
        dp.max_divergence(),
        lambda value: known[draw(known.index(value))],
        lambda distance: min(distance, 1) * _priced("randomised_response", **how)(1),
    )


def make_randomized_response_bool(prob: float, constant_time: bool = False) -> Any:
    """Ours."""
    return make_randomized_response([False, True], prob)


def pytest_configure() -> None:
    """Before any test is read."""
    for name, made in list(globals().items()):
        if name.startswith("make_"):
            setattr(theirs, name, made)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How often ours drew."""
    terminalreporter.write_line("drawn by dpicl: " + json.dumps(_drawn))


def pytest_unconfigure() -> None:
    """No process stays."""
    for process in _process:
        process.kill()
        process.wait()
