"""A method of a package of its own, installed as any other: protected, run, resumed, charged,
reported and audited like ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Place, install, new_place, shop, shop_rows
from tests.library.examples import ROOT
from tests.methods.examples import grid_for
from tests.tasks.in_batches import install_folder

PACKAGE = ROOT / "tests" / "packages" / "noisy_label"
NAME = "noisy_label"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for `PYTHONPATH` with the installed package; hatchling, which builds it, is at
    hand.
    """
    folder = tmp_path_factory.mktemp("installed")
    quiet = (
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *quiet, "--target", str(folder), str(PACKAGE)],
        check=True,
    )
    return os.pathsep.join([str(folder), str(ROOT)])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A private table with a budget of 1000, and a benchmark."""
    place = new_place(tmp_path_factory.mktemp("place"))
    install(place, shop(private=True), shop_rows(80))
    yield place


def _python(
    installed: str, place: Place, program: str, standard_input: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **place.environment, "PYTHONPATH": installed}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=place.root,
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def audited(place: Place, installed: str) -> str:
    """The same folder, once transcripts of the method have passed."""
    words = ("protect", "shop", "--method", NAME, "--epsilon", "0.5", "--shots", "4")
    early = place.dpicl(*words, "--out", "early.jsonl", PYTHONPATH=installed)
    assert early.returncode == 2 and _spent(place, installed) == []
    assert (
        f"expected one before it draws from shop: `dpicl audit transcripts {NAME}`" in early.stderr
    )
    done = place.dpicl("audit", "transcripts", NAME, PYTHONPATH=installed, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none told more than stated, the most 1.0000 of it" in done.stdout
    return installed


def _spent(place: Place, installed: str) -> list[tuple[str, int, float]]:
    program = (
        "import dpicl, json; print(json.dumps([[a.account, a.releases, a.epsilon_spent] for a in "
        "dpicl.Session().budget()]))"
    )
    return [tuple(one) for one in json.loads(_python(installed, place, program).stdout)]


MISTAKES = {
    "less noise": (
        "epsilon=exact_epsilon(point.epsilon)",
        "epsilon=exact_epsilon(2 * point.epsilon)",
    ),
    "no noise": ("return noisy_counts(", "return (lambda counts, **_: counts)("),
    "as many counts as labels": (
        "[int((labels == label).sum()) for label in (0, 1)]",
        "np.bincount(labels, minlength=2).tolist()",
    ),
    "the sum of counts beside": ("json.dumps(drawn)", "json.dumps([*drawn, sum(drawn)])"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_program_that_does_not_pass_draws_from_nothing_private(
    mistake: str, tmp_path: Path, installed: str
) -> None:
    """Nor does one that was changed after it had passed."""
    place = new_place(tmp_path / "place")
    install(place, shop(private=True), shop_rows(80))
    folder = tmp_path / "installed"
    shutil.copytree(installed.partition(os.pathsep)[0], folder)
    mine = os.pathsep.join([str(folder), str(ROOT)])
    module = folder / "noisy_label.py"
    right = module.read_text("utf-8")
    audit = ("audit", "transcripts", NAME)
    release = (
        "protect",
        "shop",
        "--method",
        NAME,
        "--epsilon",
        "0.5",
        "--shots",
        "4",
        "--out",
        "o",
    )
    assert place.dpicl(*audit, PYTHONPATH=mine, timeout=300).returncode == 0
    module.write_text(right.replace(*MISTAKES[mistake]), "utf-8")
    assert module.read_text("utf-8") != right
    changed = place.dpicl(*release, PYTHONPATH=mine)
    assert changed.returncode == 2 and "no audit of this program has passed" in changed.stderr
    passed = mistake == "the sum of counts beside"  # which follows from what was drawn
    audited = place.dpicl(*audit, PYTHONPATH=mine, timeout=300)
    assert audited.returncode == (0 if passed else 1)
    assert ("noisy_label does not keep what it states in " in audited.stdout) == (not passed)
    if not passed:
        assert place.dpicl(*release, PYTHONPATH=mine).returncode == 2


@pytest.mark.exhaustive
def test_protect_releases_once_and_charges_once(place: Place, audited: str) -> None:
    installed = audited
    asked = ("protect", "shop", "--method", NAME, "--epsilon", "0.5", "--shots", "4")
    done = place.dpicl(*asked, "--out", "one.jsonl", PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    spent = _spent(place, installed)
    assert spent == [("shop", 1, 1.0)], "replace-one: twice the price"
    budget = place.dpicl("budget", "shop", PYTHONPATH=installed)
    assert budget.returncode == 0 and NAME in budget.stdout, budget.stdout
    again = place.dpicl(*asked, "--out", "two.jsonl", PYTHONPATH=installed)
    assert again.returncode == 0 and _spent(place, installed) == spent
    one, two = ((place.root / name).read_text() for name in ("one.jsonl", "two.jsonl"))
    assert one == two and len(one.splitlines()) == 4


@pytest.mark.exhaustive
def test_a_pipeline_runs_it_on_a_cluster_resumes_and_reports_it(place: Place, audited: str) -> None:
    installed = audited
    options = f"--methods {NAME} --datasets shop --epsilons 1 --shots 1,2 --seeds 0 --model fake"
    words = f"run private {options} --run-id mine".split()
    done = place.dpicl(*words, PYTHONPATH=installed, timeout=300)
    assert done.returncode == 0, done.stderr
    run, spent = place.run("mine"), _spent(place, installed)
    unit = run / "units" / f"{NAME}__shop__seed0"
    assert json.loads((unit / "released_labels.json").read_text()).keys() == {"labels,epsilon=1.0"}
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["methods"] == {NAME: {"draw_version": 1, "post_version": 1}}
    report = (run / "report.html").read_text("utf-8")
    assert "Noisy label" in report and "The released counts have" in report
    for lost in (run / "report.html", unit / "results.json", unit / "released_labels.json"):
        lost.unlink()
    resumed = place.dpicl("run", "--resume", "mine", PYTHONPATH=installed, timeout=300)
    assert resumed.returncode == 0, resumed.stderr
    assert _spent(place, installed) == spent and (run / "report.html").exists()


@pytest.mark.exhaustive
def test_what_it_must_not_do_is_refused(place: Place, audited: str) -> None:
    installed = audited

    def refused(epsilon: str, **where: str) -> str:
        options = f"protect shop --method {NAME} --epsilon {epsilon} --shots 1 --out no"
        done = place.dpicl(*options.split(), **where)
        assert done.returncode == 2 and not (place.root / "no").exists()
        return str(done.stderr)

    assert "epsilon=inf releases rows without noise" in refused("inf", PYTHONPATH=installed)
    assert "of cap 1000" in refused("900", PYTHONPATH=installed)
    unknown = refused("1")
    assert "expected one of" in unknown and NAME not in unknown.partition("expected")[2]


@pytest.mark.exhaustive
def test_a_table_in_batches_is_read_whole_where_it_counts_none(
    tmp_path: Path, installed: str
) -> None:
    place = new_place(tmp_path / "place")
    install_folder(place, private=True)
    done = place.dpicl("audit", "transcripts", NAME, PYTHONPATH=installed, timeout=300)
    assert done.returncode == 0, done.stderr
    program = (
        "from dpicl.runs.execute import InProcess, run_units\n"
        "from dpicl.runs.plan import make_plan\n"
        "from dpicl.home.settings import Settings\n"
        "from tests.tasks.in_batches import small_batches\n"
        f"small_batches()\nwith Settings.from_environment().entered():\n"
        f"    run_units(make_plan('private', {grid_for(NAME)!r}, 'batches'), InProcess())"
    )
    done = _python(installed, place, program)
    assert done.returncode == 0, done.stderr
    assert len([spent for _, releases, spent in _spent(place, installed) if releases]) == 1


def test_its_author_imports_it_by_itself_and_finds_it_registered(
    place: Place, installed: str
) -> None:
    """Though it imports modules beside the registry, which loads it."""
    program = (
        "import noisy_label, dpicl\n"
        f"assert type(dpicl.METHODS[{NAME!r}]) is noisy_label.NoisyLabel\n"
        f"from dpicl.methods import Options\nassert {NAME!r} in Options.model_fields\n"
        "print(dpicl.METHODS)"
    )
    done = _python(installed, place, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{'ldp_tabicl': LDP-TabICL, ") and "Noisy label" in done.stdout


@pytest.mark.parametrize(
    "module", ["base", "tabular_method", "text_method", "grid", "options", "text_answers"]
)
def test_what_a_method_imports_does_not_load_the_registry(module: str) -> None:
    program = f"import sys, dpicl.methods.{module}; print('dpicl.methods.registry' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


FACTS = {
    "is not stated": (
        "title",
        "trust",
        "baselines_read",
        "draw_version",
        "post_version",
        "artefact",
        "draw_stage",
        "options",
    ),
    "is missing": (
        "systems",
        "cost",
        "identity",
        "statement",
        "draw",
        "encode",
        "decode",
        "examples",
        "prompts",
    ),
}


PAIRS = {
    "prepare": ('prepare_stage = "mark"', "prepare_stage"),
    "rows": ('derive_stage = "make rows"', "derive_stage"),
    "baselines": ('baselines_read = "private"', "baselines_read"),
    "count": ("merge = draw", "merge"),
}
"""A line that states one of two that belong together, by the function that is missing then."""


def test_a_fact_that_is_left_out_is_an_error_at_import(place: Place, installed: str) -> None:
    """Of the class, before anything is charged."""
    head, keyword, body = (
        (PACKAGE / "noisy_label.py").read_text("utf-8").partition("class NoisyLabel")
    )
    without = {
        fact: head + keyword + re.sub(rf"\b{fact}\b", f"{fact}_of_old", body, count=1)
        for facts in FACTS.values()
        for fact in facts
    }
    without |= {name: f"{head}{keyword}{body}\n    {line}\n" for name, (line, _) in PAIRS.items()}
    program = (
        "import json, sys\nfor fact, source in json.load(sys.stdin).items():\n"
        "    try:\n        exec(source, {'__name__': 'forgetful'})\n"
        "    except Exception as error:\n        print(json.dumps([fact, type(error).__name__, "
        "str(error)]))"
    )
    done = _python(installed, place, program, json.dumps(without))
    errors = {fact: (kind, text) for fact, kind, text in map(json.loads, done.stdout.splitlines())}
    for rule, facts in FACTS.items():
        for fact in facts:
            kind, text = errors[fact]
            assert kind == "PrivacyError" and text.startswith(
                f"method 'noisy_label': {fact}: {rule}; expected "
            ), text
    for name, (_, other) in PAIRS.items():
        assert errors[name] == (
            "PrivacyError",
            f"method 'noisy_label': {name}: does not fit {other}; expected both or neither",
        )


@pytest.mark.exhaustive
def test_the_audit_of_the_whole_machine_covers_it(place: Place, installed: str) -> None:
    """Neighbouring files give the same public bytes but for what is paid for."""
    program = (
        "from lab.audit.end_to_end.suite import CLAIMS\n"
        f"assert CLAIMS['bytes of protect: {NAME}']() == []\nassert CLAIMS['bytes of a run: "
        f"{NAME}']() == []\nprint('held')"
    )
    found = _python(installed, place, program)
    assert found.stdout == "held\n", found.stderr


def test_contributing_shows_this_very_method() -> None:
    """What a newcomer copies is what these tests ran."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    shown = re.findall(r"```python\n((?!class (?:ClockColumn|Counting)).*?)```", page, re.DOTALL)
    whole = (PACKAGE / "noisy_label.py").read_text("utf-8")
    assert len(shown) == 2 and all(piece in whole for piece in shown)
    assert f"]({(PACKAGE / 'noisy_label.py').relative_to(ROOT)})" in page
    (registered,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert registered in (PACKAGE / "pyproject.toml").read_text("utf-8")
