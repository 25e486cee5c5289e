from pathlib import Path

import pytest

from support.setting_sources import SettingSources


@pytest.fixture
def sources(tmp_path: Path) -> SettingSources:
    return SettingSources(tmp_path)
