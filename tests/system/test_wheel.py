"""What a user installs: a wheel, in another environment, from another directory, without a network."""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from conftest import write_random_ensemble

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A new venv with nothing but our wheel; the libraries it needs are borrowed from this one."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "*.so", "*.egg-info", "build", "out", "runs", "__pycache__")
    )
    if not (source / "models" / "default").exists():
        write_random_ensemble(source / "models" / "default")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(source),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", wheel], check=True, capture_output=True)
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    borrowed = sysconfig.get_path("purelib")
    (Path(place) / "borrowed.pth").write_text(borrowed + "\n")
    return folder / "venv" / "bin", place


@pytest.mark.slow
def test_wheel_predicts_from_anywhere(environment, tmp_path):
    binaries, place = environment
    offline = (
        ["unshare", "-rn"] if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0 else []
    )
    text = "It was late, and nobody had said a word since supper. "
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"id": "a", "pair": [text * 20, text * 30]}))
    done = subprocess.run(
        [*offline, binaries / "pan21av", "predict", "-i", "pairs.jsonl", "-o", "out"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "answers.jsonl").read_text())["id"] == "a"
    where = subprocess.run(
        [binaries / "python", "-c", "import pan21av; print(pan21av.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    ).stdout.strip()
    assert where.startswith(place), "the clone was used, not the wheel"
    if shutil.which("cc"):
        assert list((Path(place) / "pan21av").glob("_kernel*.so")), "the kernel was not built into the wheel"
        assert "native kernel" in done.stderr
