"""The image, built and run by a real engine, as TIRA and as people run it."""

import json
import os
import re
import shutil
import subprocess
import time
import uuid

import pytest
from support import HANGS, LAX_LIMITS, ROOT, SHARED, write_random_ensemble

from pan21av.commands.predict import predict

IMAGE = "pan21av-test"
IGNORED = shutil.ignore_patterns(
    ".venv", ".tira", ".git", "runs", "out", "build", "*.egg-info", "__pycache__", ".*_cache"
)
STAND_IN = 192_000_000  # a wheel that ../shared/docker's base image carries, and the real one does not


def docker(*arguments, check=True, **options):
    done = subprocess.run(["docker", *map(str, arguments)], capture_output=True, **options)
    assert done.returncode == 0 or not check, done.stderr.decode()[-3000:]
    return done


def engine_answers():
    try:
        return subprocess.run(["docker", "version"], capture_output=True, timeout=HANGS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not engine_answers(), reason="no Docker engine answers here"),
]


@pytest.fixture(scope="module")
def image():
    docker("build", "-t", IMAGE, ROOT)
    return IMAGE


@pytest.fixture
def folders(tmp_path):
    """An input folder that holds the examples, and an output folder that any user may write."""
    (tmp_path / "in").mkdir()
    shutil.copy(ROOT / "examples" / "pairs.jsonl", tmp_path / "in" / "pairs.jsonl")
    (tmp_path / "out").mkdir()
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    (tmp_path / "out").chmod(0o777)
    return tmp_path


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    out = tmp_path_factory.mktemp("local")
    predict(str(ROOT / "examples"), out)
    return read(out)


def read(folder):
    return {a["id"]: a["value"] for a in map(json.loads, (folder / "answers.jsonl").read_text().splitlines())}


def tira_check(folder):
    """TIRA's check of a run's output: one .jsonl or .jsonl.gz, hidden ones included, two lines or more, all JSON."""
    files = [p for p in folder.rglob("*") if p.name.endswith((".jsonl", ".jsonl.gz"))]
    assert len(files) == 1, files
    lines = files[0].read_text("utf-8").splitlines()
    assert len(lines) >= 2
    return [json.loads(line) for line in lines]


def mounts(folders):
    return ("-v", f"{folders / 'in'}:/in:ro", "-v", f"{folders / 'out'}:/out")


def test_as_tira_runs_it(image, folders, expected):
    """ENTRYPOINT overridden by sh -c, variables set, input read-only, no network."""
    done = docker(
        "run", "--rm", "--network=none", "--entrypoint", "sh",
        "-v", f"{folders / 'in'}:/tira-data/input:ro", "-v", f"{folders / 'out'}:/tira-data/output",
        "-e", "inputDataset=/tira-data/input", "-e", "outputDir=/tira-data/output",
        image, "-c", "pan21av predict -i $inputDataset -o $outputDir",
    )  # fmt: skip
    assert {a["id"]: a["value"] for a in tira_check(folders / "out")} == pytest.approx(expected, abs=1e-6)
    assert b"native kernel" in done.stderr


def test_variables_are_enough(image, folders, expected):
    docker(
        "run", "--rm", *mounts(folders), "-e", "TIRA_INPUT_DATASET=/in", "-e", "TIRA_OUTPUT_DIR=/out", image, "predict"
    )
    assert read(folders / "out") == pytest.approx(expected, abs=1e-6)


CONDITIONS = {
    "another user": ["--user", "12345:12345"],
    "read-only": ["--read-only"],
    "read-only, another user, no /tmp to speak of": [
        "--read-only", "--user", "12345:12345", "--tmpfs", "/tmp:size=64k", "--shm-size", "64m", "--network", "none",
    ],
    "half a core": ["--cpus", "0.5"],
    "one core of two": ["--cpuset-cpus", "0"],
    "no capabilities": ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "64"],
}  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(image, folders, expected, condition):
    done = docker("run", "--rm", *CONDITIONS[condition], *mounts(folders), image, "predict", "-i", "/in", "-o", "/out")
    assert read(folders / "out") == pytest.approx(expected, abs=1e-6)
    assert b"Traceback" not in done.stderr
    if "core" in condition:
        assert b"1 thread\n" in done.stderr


def test_one_core_and_two_gigabytes_do_for_200_pairs(image, folders):
    lines = (ROOT / "examples" / "pairs.jsonl").read_text().splitlines()
    texts = [text for line in lines for text in json.loads(line)["pair"]]
    rows = []
    for n in range(200):  # all distinct, about as long as PAN's
        first = f"{n}. " + " ".join(texts[(n + k) % len(texts)] for k in range(6))
        rows.append({"id": str(n), "pair": [first[:21_000], first[::-1][:200] + first[300:21_000]]})
    (folders / "in" / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    docker("run", "--rm", "--cpus", "1", "--memory", "2g", "--memory-swap", "2g", *mounts(folders), image, "predict",
           "-i", "/in", "-o", "/out")  # fmt: skip
    assert len(tira_check(folders / "out")) == 200


def test_docker_stop_leaves_no_half_answers(image, folders):
    lines = (ROOT / "examples" / "pairs.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"id": f"{k}-{n}"} for k in range(300) for n, line in enumerate(lines)]
    for number, row in enumerate(rows):
        row["pair"] = [f"{number} {text}" for text in row["pair"]]
    (folders / "in" / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    name = f"pan21av-{uuid.uuid4().hex[:8]}"

    def state():
        return json.loads(docker("inspect", name).stdout)[0]["State"]

    # Directly: a shell in front of it (sh -c) would be the process that gets the signal, and pass nothing on.
    docker("run", "-d", "--name", name, *mounts(folders), image, "predict", "-i", "/in", "-o", "/out")
    try:
        part = folders / "out" / "answers.jsonl.part"
        while not (part.exists() and part.stat().st_size):
            assert state()["Running"], docker("logs", name).stderr.decode()
            time.sleep(0.1)
        docker("stop", "-t", HANGS, name)
        assert state()["ExitCode"] == 130  # 137: it had to be killed; 0: it went on to its end
        assert b"interrupted" in docker("logs", name).stderr
        assert part.exists()
        assert not (folders / "out" / "answers.jsonl").exists()
    finally:
        docker("rm", "-f", name)


def test_nothing_in_it_that_should_not_be(image):
    listing = docker(
        "run", "--rm", "--entrypoint", "sh", image, "-c", "find / -xdev -type f 2>/dev/null"
    ).stdout.decode()
    files = listing.splitlines()
    names = {os.path.basename(f) for f in files}
    assert not {"gcc", "cc", "ld", "make", "cc1", "g++"} & names
    texts = (".jsonl", ".jsonl.xz", ".jsonl.gz", ".pt")
    assert not [f for f in files if f.endswith(texts) and "/torch/" not in f]
    assert not [f for f in files if "/.cache/" in f or f.startswith(("/src/", "/tests/"))]
    ensemble = {f"/app/pan21av/models/default/{path.name}" for path in (ROOT / "models" / "default").iterdir()}
    assert {f for f in files if "/models/default/" in f} == ensemble
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", image).stdout.decode()
    assert "documents.jsonl" not in history


def test_size_labels_and_version(image):
    facts = json.loads(docker("image", "inspect", image).stdout)[0]
    carries_stand_in = SHARED.exists()
    assert facts["Size"] - STAND_IN * carries_stand_in < 1_600_000_000
    assert facts["Config"]["Labels"]["org.opencontainers.image.title"] == "pan21av"
    assert docker("run", "--rm", image, "--version").stdout.startswith(b"pan21av")


def test_it_has_all_that_the_package_needs(image):
    """The libraries are installed before the package is there to ask for them."""
    docker("run", "--rm", "--entrypoint", "pip", image, "check")
    code = "import importlib.metadata as m; print(len(m.requires('pan21av')))"
    assert int(docker("run", "--rm", "--entrypoint", "python", image, "-c", code).stdout) > 5, "pip saw no package"


def steps(output):
    """Instructions of a build, in order, with whether each came from the cache: of BuildKit, and of the builder before.

    #10 [base 4/4] RUN pip ...         Step 12/24 : RUN pip ...
    #10 CACHED                          ---> Using cache
    """
    found = {}
    last = None
    for line in output.splitlines():
        head, _, rest = line.partition(" ")
        if head == "Step" and " : " in rest:
            last, rest = rest.split(" : ", 1)
            found[last] = [rest, False]
        elif line.strip() == "---> Using cache":
            found[last][1] = True
        elif head.startswith("#") and rest.startswith("["):
            found.setdefault(head, [rest.partition("] ")[2], False])
        elif head in found and rest == "CACHED":
            found[head][1] = True
    return [tuple(step) for step in found.values()]


def test_a_code_change_does_not_install_torch_again(image, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=IGNORED)
    with (copy / "pan21av" / "vote.py").open("a") as file:
        file.write(f"\n# {uuid.uuid4()}\n")
    done = docker("build", "-t", f"{IMAGE}-changed", copy, env={**os.environ, "BUILDKIT_PROGRESS": "plain"})
    docker("rmi", "-f", f"{IMAGE}-changed")
    built = steps(done.stdout.decode() + done.stderr.decode())
    assert [cached for step, cached in built if "pip install -c" in step] == [True], built
    assert [cached for step, cached in built if "apt-get install" in step] == [True], built
    assert [cached for step, cached in built if "pip install --no-deps" in step] == [False], built


@pytest.mark.skipif(not shutil.which("tira-run"), reason="no tira-run here: pip install tira")
def test_the_real_tira_client(image, folders, expected):
    command = "pan21av predict -i $inputDataset -o $outputDir"
    arguments = ["--input-directory", folders / "in", "--output-directory", folders / "out", "--image", image]
    subprocess.run(
        ["tira-run", *map(str, arguments), "--command", command], check=True, capture_output=True, timeout=HANGS
    )
    assert {a["id"]: a["value"] for a in tira_check(folders / "out")} == pytest.approx(expected, abs=1e-6)


@pytest.mark.skipif(not shutil.which("tira-cli"), reason="no tira-cli here: pip install tira")
def test_the_readme_takes_an_own_ensemble_to_tira(image, folders, tmp_path):
    """`code-submission --dry-run` of a tree with an ensemble of its own. TIRA's list of datasets, which it would
    download, is put where it keeps such; from there on all is real: git, build, run, check of the output."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=IGNORED)
    write_random_ensemble(tree / "models" / "mine", limits=LAX_LIMITS)
    text = (tree / "Dockerfile").read_text()
    (tree / "Dockerfile").write_text(re.sub("^ARG MODELS=.*", "ARG MODELS=mine", text, flags=re.MULTILINE))
    for arguments in ("init -q", "remote add origin ./", "add .", "-c user.name=a -c user.email=a@b commit -q -m own"):
        subprocess.run(["git", *arguments.split()], cwd=tree, check=True)
    dataset = {"id": "pairs", "default_task": "av", "mirrors": {"inputs": {}}, "format": ["*.jsonl"]}
    datasets = tmp_path / "tira" / ".archived" / "v1" / "datasets" / "all"
    datasets.parent.mkdir(parents=True)
    datasets.write_text(json.dumps([dataset]))
    done = subprocess.run(
        ["tira-cli", "code-submission", "--dry-run", "--path", str(tree), "--task", "av", "--dataset", "pairs",
         "--command", "pan21av predict -i $inputDataset -o $outputDir"],
        capture_output=True, timeout=HANGS,
        env={**os.environ, "TIRA_CACHE_DIR": str(tmp_path / "tira"), "TIRA_INPUT_DATASET": str(folders / "in"),
             "TERM": "dumb"},
    )  # fmt: skip
    told = done.stdout.decode() + done.stderr.decode()
    built = re.search(r"embedded into the docker image (\S+)\.", told)
    if built:
        docker("rmi", "-f", built[1])
    assert done.returncode == 0, told[-3000:]
    assert "is clean" in told
    assert "ensemble mine: 3 members" in told
    assert "produced valid outputs" in told
