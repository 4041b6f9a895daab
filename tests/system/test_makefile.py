"""What `make` asks of Docker: a stand-in for `docker` writes down how it was called."""

import json
import os
import shutil
import subprocess

import pytest
from support import ROOT


@pytest.fixture
def tree(tmp_path):
    """A folder with the Makefile and an ensemble of three files in runs/mine."""
    shutil.copy(ROOT / "Makefile", tmp_path / "Makefile")
    for folder, members in (("models/default", 2), ("runs/mine", 1)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "ensemble.json").write_text(json.dumps({"name": folder}))
        for number in range(members):
            (tmp_path / folder / f"member-0{number}.stage1.safetensors").write_text(folder)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > called\n')
    (tmp_path / "bin" / "docker").chmod(0o755)
    return tmp_path


def make(tree, *arguments):
    """-> exit code, output, how docker was called"""
    path = f"{tree / 'bin'}:{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if k not in ("MODELS", "OUT", "IN", "ARGS", "MAKEFLAGS")}
    done = subprocess.run(["make", *arguments], cwd=tree, capture_output=True, env={**environment, "PATH": path})
    called = tree / "called"
    return done.returncode, (done.stdout + done.stderr).decode(), called.read_text().split() if called.exists() else []


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("given", ["runs/mine", "runs/mine/", "./runs/../runs/mine"])
def test_an_own_ensemble_goes_into_the_image(tree, given):
    code, _, called = make(tree, "docker", f"MODELS={given}")
    assert code == 0
    assert "MODELS=mine" in called  # a slash at the end, which shells add, once built the shipped one
    assert names(tree / "models" / "mine") == names(tree / "runs" / "mine")


def test_members_of_an_earlier_ensemble_do_not_stay(tree):
    shutil.copytree(tree / "models" / "default", tree / "models" / "mine")
    assert make(tree, "docker", "MODELS=runs/mine")[0] == 0
    assert names(tree / "models" / "mine") == names(tree / "runs" / "mine")


def test_one_that_is_there_already(tree):
    before = names(tree / "models" / "default")
    assert "MODELS=default" in make(tree, "docker", "MODELS=models/default/")[2]
    assert names(tree / "models" / "default") == before


def test_the_shipped_ensemble_is_not_written_over(tree):
    (tree / "runs" / "mine").rename(tree / "runs" / "default")
    code, told, called = make(tree, "docker", "MODELS=runs/default")
    assert code != 0
    assert "another name" in told
    assert not called
    assert json.loads((tree / "models" / "default" / "ensemble.json").read_text())["name"] == "models/default"


def test_no_ensemble(tree):
    code, told, called = make(tree, "docker", "MODELS=runs")
    assert code != 0
    assert "runs holds no ensemble.json" in told
    assert not called


def test_a_run_needs_an_input_and_has_its_own_folder(tree):
    assert make(tree, "docker-run")[0] != 0
    _, _, called = make(tree, "docker-run", "IN=some/pairs.jsonl.gz")
    assert f"{tree}/some/pairs.jsonl.gz:/input.gz:ro" in called
    assert f"{tree}/out:/output" in called
    assert names(tree / "runs") == {"mine"}  # where trainings go


def test_commands_of_the_dockerfile_can_be_pasted():
    """No <placeholders>, which a shell takes for files, and no variable but those that the text names."""
    text = (ROOT / "Dockerfile").read_text()
    commands = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#   docker")]
    assert len(commands) >= 4
    for line in commands:
        assert not set("<>[]") & set(line), line
        subprocess.run(["sh", "-n", "-c", line], check=True)
    asked = {word.partition("=")[0] for line in commands for word in line.split("--build-arg ")[1:]}
    assert asked <= {line.split()[1].partition("=")[0] for line in text.splitlines() if line.startswith("ARG ")}
