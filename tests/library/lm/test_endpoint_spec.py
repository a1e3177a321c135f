"""How an endpoint is named, and which addresses may be told what."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from dpicl.ground.errors import ModelError
from dpicl.models.opening import open_scorer
from dpicl.models.spec import ModelSpec, resolve_model
from tests.library.endpoint_server import Habits, serving

NEAR = "http://127.0.0.1:8000/v1"


def spec(**given: object) -> ModelSpec:
    """An entry of kind endpoint."""
    return ModelSpec.model_validate({"name": "far", "kind": "endpoint", "id": "m", **given})


@pytest.mark.parametrize(
    "name, url, model",
    [
        (f"{NEAR}#m", NEAR, "m"),
        (f"{NEAR}/#Qwen/Qwen3-8B", NEAR, "Qwen/Qwen3-8B"),
        ("https://api.example.org/v1#llama3:8b", "https://api.example.org/v1", "llama3:8b"),
        ("http://[::1]:8000/v1#a#b", "http://[::1]:8000/v1", "a#b"),
    ],
)
def test_an_address_and_a_name_are_a_model_that_others_run(name: str, url: str, model: str) -> None:
    found = resolve_model(name, {})
    assert (found.kind, found.name, found.id, found.url, found.trust, found.key_env) == (
        "endpoint",
        model,
        model,
        url,
        "remote",
        None,
    )


@pytest.mark.parametrize(
    "name, rule",
    [
        (NEAR, "no model is named"),
        ("http://#m", "url has no scheme http or https or no host"),
        ("https://user:secret@far.org/v1#m", "url holds a user, a query or a fragment"),
        ("https://far.org/v1?key=secret#m", "url holds a user, a query or a fragment"),
        ("http://169.254.169.254/v1#m", "url is at a link-local, multicast or empty address"),
        ("http://far.org:port/v1#m", "url is no address"),
        ("http://[far/v1#m", "url is no address"),
        ("http://f ar/v1#m", "url is no address"),
        ("http://fär.org/v1#m", "url is no address"),
    ],
)
def test_a_malformed_address_is_told_in_one_sentence(name: str, rule: str) -> None:
    with pytest.raises(ModelError) as refused:
        resolve_model(name, {})
    assert (
        str(refused.value)
        == f"model endpoint: {rule}; expected an endpoint such as http://127.0.0.1:8000/v1#MODEL"
    )


@pytest.mark.parametrize(
    "url",
    ["https://far.org/v1", NEAR, "http://localhost:1/v1", "http://[::1]/v1", "http://127.1.2.3/v1"],
)
def test_a_key_goes_over_tls_or_stays_on_this_machine(url: str) -> None:
    assert spec(url=url, key_env="FAR_KEY").key_env == "FAR_KEY"


@pytest.mark.parametrize(
    "url",
    [
        "http://far.org/v1",
        "http://10.0.0.7/v1",
        "http://localhost.far.org/v1",
        "http://127.0.0.1.far.org/v1",
    ],
)
def test_a_key_is_never_sent_in_the_clear(url: str) -> None:
    with pytest.raises(ValidationError, match="would send the key in the clear; expected https"):
        spec(url=url, key_env="FAR_KEY")


@pytest.mark.parametrize(
    "url", ["https://far.org/v1", NEAR, "http://10.0.0.7:8000/v1", "http://[fd00::1]/v1"]
)
def test_local_trust_is_stated_and_needs_a_private_way(url: str) -> None:
    assert (spec(url=url).trust, spec(url=url, trust="local").trust) == ("remote", "local")


@pytest.mark.parametrize(
    "url",
    ["http://far.org/v1", "http://8.8.8.8/v1", "http://[::ffff:8.8.8.8]/v1", "http://gpu-box/v1"],
)
def test_local_trust_in_the_clear_is_refused(url: str) -> None:
    assert spec(url=url).trust == "remote"
    with pytest.raises(ValidationError, match="would send private rows in the clear"):
        spec(url=url, trust="local")


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": None},
        {"url": NEAR, "id": None},
        {"url": NEAR, "kind": "fake", "id": None},
        {"url": NEAR, "api": "grpc"},
        {"url": NEAR, "key_env": "not a name"},
        {"url": NEAR, "max_connections": 0},
        {"url": NEAR, "deadline_seconds": float("inf")},
        {"url": NEAR, "price_per_million_tokens": -1},
        {"url": "ftp://far.org"},
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        spec(**wrong)


@pytest.mark.parametrize("file, count", [("docs/how-to/own-model.md", 6), ("pipelines.yaml", 6)])
def test_the_entries_that_are_shown_are_right(file: str, count: int) -> None:
    shown = re.findall(
        r"^[ #]+([\w.-]+): (\{kind: .*\})$",
        (Path(__file__).parents[3] / file).read_text("utf-8"),
        re.MULTILINE,
    )
    entries = [
        ModelSpec.model_validate({**yaml.safe_load(entry), "name": name}) for name, entry in shown
    ]
    assert len(entries) == count and {"transformers", "endpoint"} <= {
        entry.kind for entry in entries
    }


def opens(model: str, entry: Callable[[str], ModelSpec], folder: Path) -> str:
    """The name of an entry that is opened where a server has its model."""
    with serving(Habits(model=model)) as server:
        scorer = open_scorer(entry(server.url), models_folder=folder, corpus=())
    assert scorer.description.mode == "completions top-20 logprobs, else echo"
    return scorer.description.name


def test_an_entry_opens(tmp_path: Path) -> None:
    opens("m", lambda url: resolve_model(f"{url}#m", {}), tmp_path)


def test_the_entry_that_contributing_adds_opens(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text("utf-8")
    ((name, shown),) = re.findall(r"^  ([\w-]+): (\{kind: .*\})$", page, re.MULTILINE)
    entry = yaml.safe_load(shown)

    def here(url: str) -> ModelSpec:
        return ModelSpec.model_validate({**entry, "name": name, "url": url})

    assert opens(entry["id"], here, tmp_path) == name
