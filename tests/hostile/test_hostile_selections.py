"""Selections with anything in the place of anything: refused in words, with the place, by all that read them."""

from __future__ import annotations

import json
import re

import pytest

from builders import H100, rows, selections
from hostile_data import RAW, TEMPLATE, spoilt
from locks import sealed
from pretuned.bake.plan import plan
from pretuned.build import metadata
from pretuned.build.freshness import Freshness
from pretuned.errors import BakeError, LockError
from pretuned.record import lock as lockfile
from pretuned.record.lock import RESTORE, Lock
from specs import loaded


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path, template=TEMPLATE)


@pytest.fixture
def lock(spec):
    return Lock().updated({H100.name: H100}, rows(spec), (), selections(spec))


def test_a_lock_is_read_or_refused_in_words(lock, spec):
    refused, read = [], 0
    for document in spoilt(json.loads(lockfile.dumps(lock))):
        try:
            found = lockfile.loads(sealed(document), "lock")
        except LockError as error:
            refused.append(str(error))
        else:
            read += 1
            assert lockfile.loads(json.loads(lockfile.dumps(found)), "lock") == found
            Freshness({"scale": spec}).status(found)
    assert (len(refused), read) > (500, 100)
    for said in refused:
        assert re.match(r"lock: selections\[0\]", said)
        assert said.endswith(RESTORE)
        assert not RAW.search(said)
        assert len(said) < 600


def test_a_package_s_metadata_are_read_or_refused_in_words(lock, spec):
    bare = plan({"scale": spec}, lock.rows, lock.devices, selections=lock.selections, cubins=False)
    whole = json.loads(metadata.dumps(metadata.describe(bare, {}, {}, "0")))
    assert metadata.loads(json.dumps(whole).encode()).selections
    refused = []
    for document in spoilt(whole):
        try:
            metadata.loads(json.dumps(document).encode())
        except BakeError as error:
            refused.append(str(error))
    assert len(refused) > 200
    for said in refused:
        assert said.startswith("pretuned.json: selections[0]")
        assert not RAW.search(said)
