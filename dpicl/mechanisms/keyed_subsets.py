"""Keyed subsets: every record falls into a subset by a keyed hash of its own content, for every
query anew.

Trust       Central: the curator holds the key; which row fell where stays secret.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE.
Guarantee   none spent. A record stands in one subset of a query at most, and no other record's
            place depends on it, wherever in the table it stands: one record changes one subset.
            What runs on the subsets is amplified as on a Poisson sample of rate q, as far as AES
            and BLAKE2 under a secret key cannot be told from random functions.
Paper       DP-ICL (arXiv 2305.01639), section 3: disjoint subsets, one prompt each.

    (1)  identity = digest(content), ordinal among equal contents;   mark = BLAKE2b_key(identity)
    (2)  (w, v) = AES_key(mark, query), two words of 64 bits
    (3)  takes part where w < floor(q 2^64);   subset = floor(v M / 2^64)

Ordinals make equal records distinct: one more of them adds the last ordinal and leaves the others.
Dealing rows out in turn, as a pack of cards, would move all rows behind an inserted one.

Symbols     q sampling rate in (0, 1], M subsets; every subset has a share of 1 / M up to 2^-64.
Not covered sizes of subsets, which are random and not released; the order of records inside a
subset,
            which must not depend on other records; a key that is known or used for other records.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT

KEY_BYTES, MARK_BYTES = 32, 12
_QUERIES = 1 << 32
_SUBSETS = 1 << 32
_ORDINAL_BYTES = 8
_BLOCK_BYTES = 16


def identities(contents: Sequence[bytes]) -> list[bytes]:
    """What each record is called, equation (1): a digest of its content, and its ordinal among
    equal ones.
    """
    seen: Counter[bytes] = Counter()
    ids = []
    for content in contents:
        digest = hashlib.blake2b(content, digest_size=32).digest()
        ids.append(digest + seen[digest].to_bytes(_ORDINAL_BYTES, "big"))
        seen[digest] += 1
    return ids


def record_marks(ids: Sequence[bytes], *, key: bytes) -> np.ndarray:
    """The mark of every identity, equation (1): shape (rows, 12), uint8. Raises ParameterError: the
    key has not 32 bytes.
    """
    own = _derived(key, b"dpicl marks")
    marks = b"".join(hashlib.blake2b(id_, key=own, digest_size=MARK_BYTES).digest() for id_ in ids)
    return np.frombuffer(marks, dtype=np.uint8).reshape(len(ids), MARK_BYTES)


def keyed_subsets(
    marks: np.ndarray, *, key: bytes, query: int, sampling_rate: Fraction, subset_count: int
) -> np.ndarray:
    """The subset of every record for this query by equations (2) and (3), or `LEFT_OUT`: shape
    (rows,), int64. `marks`: of `record_marks` under the same key.
    Raises ParameterError: the key has not 32 bytes, or a number is out of range.
    """
    if not 0 < sampling_rate <= 1:
        raise ParameterError("sampling_rate", sampling_rate, "a number in (0, 1]")
    for name, value, least, bound in (
        ("query", query, 0, _QUERIES),
        ("subset_count", subset_count, 1, _SUBSETS),
    ):
        if not least <= value < bound:
            raise ParameterError(name, value, f"an integer in {least}..{bound - 1}")
    blocks = np.empty((len(marks), _BLOCK_BYTES), dtype=np.uint8)
    blocks[:, :MARK_BYTES] = marks
    blocks[:, MARK_BYTES:] = np.frombuffer(
        query.to_bytes(_BLOCK_BYTES - MARK_BYTES, "big"), dtype=np.uint8
    )
    aes = algorithms.AES(_derived(key, b"dpicl places"))
    cipher = Cipher(aes, modes.ECB()).encryptor()  # noqa: S305 - a function of distinct blocks; nothing is to be deciphered
    joins, places = (
        np.frombuffer(cipher.update(blocks.tobytes()), dtype=">u8")
        .reshape(-1, 2)
        .astype(np.uint64)
        .T
    )
    subsets = _shares(places, subset_count)
    if sampling_rate < 1:
        subsets[
            joins >= np.uint64((sampling_rate.numerator << 64) // sampling_rate.denominator)
        ] = LEFT_OUT
    return subsets


def _shares(words: np.ndarray, count: int) -> np.ndarray:
    """floor(word * count / 2^64), in two halves of 32 bits, which fit: shape (rows,), int64."""
    half, wide = np.uint64(32), np.uint64(count)
    low = (words & np.uint64((1 << 32) - 1)) * wide >> half
    return ((words >> half) * wide + low >> half).astype(np.int64)


def _derived(key: bytes, purpose: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ParameterError("key", f"{len(key)} bytes", f"{KEY_BYTES} bytes")
    return hashlib.blake2b(key=key, person=purpose, digest_size=KEY_BYTES).digest()
