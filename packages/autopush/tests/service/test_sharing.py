"""Who else uses an embedded store."""

import os
from pathlib import Path

from autopush.service.sharing import StoreSharing


def test_services_notice_each_other_as_long_as_they_run(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    first = StoreSharing.begin(store)
    assert first is not None
    assert first.is_alone()
    inherited = StoreSharing(os.dup(first.descriptor))  # of a worker, or the next version
    assert inherited.is_alone()
    second = StoreSharing.begin(store)
    assert second is not None
    assert not first.is_alone()
    assert not second.is_alone()
    os.close(first.descriptor)
    assert not second.is_alone()
    os.close(inherited.descriptor)
    assert second.is_alone()
    os.close(second.descriptor)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    assert StoreSharing.begin(str(tmp_path / "missing" / "store")) is None
