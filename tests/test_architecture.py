"""The floors of the house hold."""

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports


def test_imports_point_down_the_floors() -> None:
    assert lint_imports(config_filename="pyproject.toml") == EXIT_STATUS_SUCCESS
