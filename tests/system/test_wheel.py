"""What a user installs: a wheel, in another environment, from another directory, without a network."""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
from support import HANGS, ROOT

TEXT = "It was late, and nobody had said a word since supper. "


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=HANGS, **options)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The clone as git has it: links stay links, and nothing built lies about."""
    folder = tmp_path_factory.mktemp("source") / "pan21av"
    ignored = shutil.ignore_patterns(".*", "*.so", "*.egg-info", "build", "dist", "out", "runs", "__pycache__")
    shutil.copytree(ROOT, folder, symlinks=True, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A new venv with nothing but our wheel; the libraries it needs are borrowed from this one."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", wheel)
    place = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    (place / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin", place


@pytest.fixture(scope="module")
def offline():
    """What to put before a command to cut it off from the network, where this machine can."""
    prefix = ["unshare", "-rn"]
    works = shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0
    return prefix if works else []


def test_it_holds_the_whole_package_and_nothing_else(source, wheel):
    """A folder that setuptools misses shows only where the package is installed, not in a clone."""
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    built = {name for name in names if name.startswith(("pan21av/network/_kernel", "pan21av/data/_ngrams"))}
    assert len(built) == 2 * bool(shutil.which("cc")), "the C libraries were not built into the wheel"
    if built:  # they call nothing of Python, so one wheel serves all versions
        assert "-cp310-abi3-" in wheel.name
        assert all(name.endswith(".abi3.so") for name in built)
    package = source / "pan21av"
    assert (package / "models").is_symlink()
    modules = {str(path.relative_to(source)) for path in package.rglob("*.py")}
    ensemble = {f"pan21av/models/default/{path.name}" for path in (source / "models" / "default").iterdir()}
    assert "pan21av/models/default/ensemble.json" in ensemble
    pages = {"commands/frame.html", "commands/page.html", "commands/matrix.html", "commands/style.css"}
    beside = {"README.md", "py.typed", *pages, "models/default.toml"}
    assert names - built == modules | ensemble | {f"pan21av/{name}" for name in beside}


def test_it_predicts_and_explains_from_anywhere(environment, offline, tmp_path):
    binaries, place = environment
    where = run(binaries / "python", "-c", "import pan21av; print(pan21av.__file__)", cwd=tmp_path).stdout
    assert Path(where).is_relative_to(place), "the clone was used, not the wheel"
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"id": "a", "pair": [TEXT * 20, TEXT * 30]}))
    done = run(*offline, binaries / "pan21av", "predict", "-i", "pairs.jsonl", "-o", "out", cwd=tmp_path)
    assert json.loads((tmp_path / "out" / "answers.jsonl").read_text())["id"] == "a"
    assert ("native kernel" in done.stderr) == bool(shutil.which("cc"))
    run(*offline, binaries / "pan21av", "explain", "-i", "pairs.jsonl", "--id", "a", "-o", "page.html", cwd=tmp_path)
    assert "nobody" in (tmp_path / "page.html").read_text("utf-8")
