"""The shape of the source: layers, no import circles, each class name once in a package, and whole
lists of modules.
"""

import ast
import logging.config
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from support.paths import PACKAGES


class Module(NamedTuple):
    """A module: its dotted name, whether it is a package's `__init__`, and its syntax tree."""

    name: str
    is_package: bool
    tree: ast.Module


@cache
def modules() -> Mapping[str, Module]:
    """Every module of the three packages, by name."""
    found = {}
    for path in sorted(PACKAGES.glob("*/src/**/*.py")):
        source = path.relative_to(next(PACKAGES.glob("*/src")).parents[1])
        parts = Path(*source.parts[2:]).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, parts[-1] == "__init__", ast.parse(path.read_text("utf-8")))
    return found


def imports(module: Module) -> Iterator[str]:
    """The modules of ours that a module imports anywhere in it, also for type checking only."""
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in modules() else base for name in names]
        else:
            continue
        yield from (name for name in names if name in modules() and name != module.name)


def test_imports_point_down_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    # It sets up logging for its own command, which would disable all other loggers for good.
    monkeypatch.setattr(logging.config, "dictConfig", lambda _: None)
    assert lint_imports(config_filename="pyproject.toml") == EXIT_STATUS_SUCCESS


def test_no_module_imports_itself_over_others() -> None:
    # What a package gathers for its users is no dependency of the modules that it gathers.
    graph = {
        module.name: set(imports(module)) for module in modules().values() if not module.is_package
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("imports in a circle: " + " → ".join(error.args[1]))


def test_a_class_name_occurs_once_in_a_package() -> None:
    places = defaultdict(list)
    for module in modules().values():
        package = module.name.partition(".")[0]
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[package, node.name].append(module.name)
    assert {name: names for (_, name), names in places.items() if len(names) > 1} == {}


def test_a_package_that_lists_its_modules_lists_all_of_them() -> None:
    children = defaultdict(set)
    for name in modules():
        package, _, child = name.rpartition(".")
        if package and not child.startswith("_"):
            children[package].add(child)
    missing = {}
    for package, found in children.items():
        words = set(re.findall(r"\w+", ast.get_docstring(modules()[package].tree) or ""))
        if len(found & words) > len(found) / 2 and found - words:
            missing[package] = sorted(found - words)
    assert missing == {}
