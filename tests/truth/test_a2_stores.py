"""An object or prefix of a store has one account, at whatever endpoint: of each there is one
spelling, and others are refused.
"""

from __future__ import annotations

import os
from itertools import cycle

import pytest

from dpicl.contract import declared
from dpicl.ground import objects
from dpicl.ground.errors import DpiclError
from dpicl.ground.objects import store_settings
from dpicl.home.settings import Settings
from tests.harness import Place

from .asset_tools import contract, dry, payer, refusal

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")


@pytest.fixture(autouse=True)
def first(place: Place, keys: None) -> None:
    """The account `first` pays for a prefix."""
    assert payer(contract(place, "first", {"folder": "s3://shop-rows/2027/sales/"})) == "first"


SAME = [
    {"folder": "s3://shop-rows/2027/sales"},
    {"folder": "s3://shop-rows/2027/sales/"},
    {"folder": "s3://shop-rows/2027"},
    {"folder": "s3://shop-rows/2027/sales/may"},
    {"file": "s3://shop-rows/2027/sales/part-0.parquet"},
    {"file": "s3://shop-rows/2027/sales/may/part-0.csv.gz"},
    {"file": "s3://shop-rows/elsewhere.csv", "moved_from": "s3://shop-rows/2027/sales/"},
]
REFUSED = [
    "s3://shop-rows//2027/sales",
    "s3://shop-rows/2027//sales",
    "s3://shop-rows/2027/sales//",
    "s3://shop-rows/2027/./sales",
    "s3://shop-rows/2027/may/../sales",
    "s3://shop-rows/2027/sales/..",
    "s3://shop-rows/2027/sales/.",
    "s3://shop-rows/2027%2Fsales",
    "s3://shop-rows/2027/s%61les",
    "s3://Shop-Rows/2027/sales",
    "S3://shop-rows/2027/sales",
    "s3a://shop-rows/2027/sales",
    "https://shop-rows.s3.amazonaws.com/2027/sales",
    "s3://key:secret@shop-rows/2027/sales",
    "s3://shop-rows:443/2027/sales",
    "s3://shop-rows/2027/sales?versionId=1",
    "s3://shop-rows/2027/sales#part",
    "s3://my-access-point-abcdefghij-s3alias/2027/sales",
    "s3://my-lambda--ol-s3/2027/sales",
    "s3://abcdefghij.mrap/2027/sales",
]
OTHERS = [
    "s3://shop-rows/2027/sales2",
    "s3://shop-rows2/2027/sales",
    "s3://shop-rows/2027/Sales",
    "s3://shop-rows/2028/sales/",
]


@pytest.mark.parametrize("source", SAME, ids=str)
def test_a_prefix_and_what_lies_in_it_have_one_account(
    place: Place, source: dict[str, str]
) -> None:
    assert payer(contract(place, "second", source)) == "first"


@pytest.mark.quick(
    "s3://shop-rows/2027//sales",
    "s3://shop-rows/2027/may/../sales",
    "s3://shop-rows/2027%2Fsales",
    "s3://Shop-Rows/2027/sales",
    "s3a://shop-rows/2027/sales",
    "s3://shop-rows/2027/sales?versionId=1",
    "s3://my-access-point-abcdefghij-s3alias/2027/sales",
)
@pytest.mark.parametrize("spelt", REFUSED)
def test_another_spelling_of_a_key_is_refused_by_the_contract(place: Place, spelt: str) -> None:
    for kind in ("folder", "file"):
        assert dry(contract(place, "second", {kind: spelt})).startswith(
            f"second.yaml: source.{kind}"
        )


@pytest.mark.parametrize("spelt", OTHERS)
def test_other_keys_are_other_assets(place: Place, spelt: str) -> None:
    assert payer(contract(place, "second", {"folder": spelt})) == "second"


ENDPOINTS = [
    "http://localhost:9000",
    "http://127.0.0.1:9000",
    "http://127.0.0.1:9000/",
    "http://[::1]:9000",
    "http://LOCALHOST:9000",
    "https://minio.example",
    "https://MINIO.example:443/",
    "https://s3.amazonaws.com",
    "https://s3.eu-west-1.amazonaws.com",
    "https://s3.dualstack.us-gov-west-1.amazonaws.com",
    "https://s3-eu-west-1.amazonaws.com",
    "https://s3-fips.us-east-1.amazonaws.com",
    "https://s3-accelerate.amazonaws.com",
    "https://bucket.vpce-1a2b3c-5d6e.s3.us-east-1.vpce.amazonaws.com",
    "https://s3.cn-north-1.amazonaws.com.cn",
    "https://storage.googleapis.com",
    "https://nyc3.digitaloceanspaces.com",
    "https://0123456789abcdef0123456789abcdef.r2.cloudflarestorage.com",
]


@pytest.mark.quick(
    "http://[::1]:9000-AWS_ENDPOINT_URL_S3",
    "https://MINIO.example:443/-AWS_ENDPOINT_URL",
    "https://s3.amazonaws.com-AWS_ENDPOINT_URL_S3",
    "https://storage.googleapis.com-AWS_ENDPOINT_URL_S3",
)
@pytest.mark.parametrize(
    ("endpoint", "variable"),
    list(zip(ENDPOINTS, cycle(("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")), strict=False)),
)
def test_at_every_endpoint_the_account_is_the_bucket_s(
    place: Place, monkeypatch: pytest.MonkeyPatch, endpoint: str, variable: str
) -> None:
    monkeypatch.setenv(variable, endpoint)
    store_settings()
    for region in ("us-east-1", "eu-west-1"):
        monkeypatch.setenv("AWS_REGION", region)
        assert (
            payer(contract(place, "second", {"file": "s3://shop-rows/2027/sales/part-0.parquet"}))
            == "first"
        )


NAME_A_BUCKET = [
    "https://shop-rows.s3.amazonaws.com",
    "https://SHOP-ROWS.S3.amazonaws.com",
    "https://shop-rows.s3.amazonaws.com.",
    "https://shop-rows.s3.eu-west-1.amazonaws.com",
    "https://shop-rows.s3-eu-west-1.amazonaws.com",
    "https://s3-rows.s3.eu-west-1.amazonaws.com",
    "https://shop-rows.s3.dualstack.us-west-2.amazonaws.com",
    "https://shop-rows.s3-accelerate.amazonaws.com",
    "https://ap-123456789012.s3-accesspoint.us-west-2.amazonaws.com",
    "https://accesspoint.vpce-1a2b-5d6e.s3.us-east-1.vpce.amazonaws.com",
    "https://shop-rows.s3.cn-north-1.amazonaws.com.cn",
    "https://shop-rows.storage.googleapis.com",
    "https://shop-rows.nyc3.digitaloceanspaces.com",
    "https://shop-rows.0123456789abcdef0123456789abcdef.r2.cloudflarestorage.com",
    "https://shop-rows.s3.us-west-000.backblazeb2.com",
    "https://shop-rows.s3.wasabisys.com",
]


@pytest.mark.quick(
    "https://shop-rows.s3.amazonaws.com.",
    "https://shop-rows.s3-eu-west-1.amazonaws.com",
    "https://shop-rows.storage.googleapis.com",
    "https://accesspoint.vpce-1a2b-5d6e.s3.us-east-1.vpce.amazonaws.com",
)
@pytest.mark.parametrize("endpoint", NAME_A_BUCKET)
def test_an_endpoint_that_names_a_bucket_is_refused_before_anything_is_charged(
    place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """There `s3://2027/sales` would be the object `2027/sales` of that bucket, under an account of
    its own.
    """
    name = contract(place, "second", {"folder": "s3://2027/sales/"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    sentence = refusal(
        capsys, "protect", name, "--epsilon", "1", "--method", "mst_tabicl", "--dry-run"
    )
    assert (
        "AWS_ENDPOINT_URL: its host names a bucket or an access point" in sentence
        and "shop-rows" not in sentence
    )


def test_what_was_bound_before_still_pays(place: Place) -> None:
    """The address of an object is spelt as it was."""
    from dpicl.home.accounts import addresses_of

    assert addresses_of(Settings.current().declared("first"), Settings.current()) == (
        "s3://shop-rows/2027/sales",
    )


def test_mutants_open_a_second_budget(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", NAME_A_BUCKET[0])
    monkeypatch.setattr(objects, "_names_bucket", lambda host: False)
    assert store_settings()["endpoint_override"] == "shop-rows.s3.amazonaws.com"
    assert payer(contract(place, "second", {"folder": "s3://2027/sales/"})) == "second"
    with pytest.raises(DpiclError):
        payer(contract(place, "third", {"folder": "s3://shop-rows/2027//sales"}))
    monkeypatch.setattr(declared, "_ALIASES", ("-nothing",))
    assert (
        payer(
            contract(
                place, "fourth", {"folder": "s3://my-access-point-abcdefghij-s3alias/2027/sales"}
            )
        )
        == "fourth"
    )
