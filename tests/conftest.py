"""Fixtures. Everything under system/, and what carries a marker, is the slow tier; `make check` runs the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import generated_corpus
import pytest
from click.testing import CliRunner
from hypothesis import settings
from support import write_random_ensemble

from pan21av.cli import main

# A job in the background ignores Ctrl-C, and so does all that it starts; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# One profile: a busy machine must not fail a property, and CI draws the same examples every time.
settings.register_profile("pan21av", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("pan21av")


def pytest_collection_modifyitems(items):
    for item in items:
        if "system" in Path(item.fspath).parts:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def tiny_ensemble(tmp_path_factory) -> Path:
    """Three members with random weights, small enough to answer at once."""
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    generated_corpus.write(path, generated_corpus.documents(60, each=4, topics=8, sentences=10))
    return path


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in ("PAN21AV_MODELS", "inputDataset", "outputDir", "TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def process(tmp_path):
    """Runs the real command in a process of its own, from an empty directory."""

    def run(*args, env=None, **options):
        return subprocess.run(
            [sys.executable, "-m", "pan21av", *map(str, args)],
            capture_output=True, cwd=tmp_path, env={**os.environ, **(env or {})}, timeout=300, **options,
        )  # fmt: skip

    return run


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs the command in this process: no seconds lost on starting Python and torch."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        result = CliRunner().invoke(main, [str(a) for a in args])
        return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout_bytes, stderr=result.stderr_bytes)

    return run
