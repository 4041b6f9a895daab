"""make bench: pan21av against the plain implementation, in one run on this machine.

Every measurement is a process of its own, so that thread settings and peak memory are its own
too. Variants take turns, and medians are reported: against the plain implementation, against the
arithmetic at the speed of this machine's own matrix product, and against the last recorded run
(the newest recorded-*.json; once results.json is to be that, copy it there by its date).

    python benchmarks/bench.py [--quick] [--repeat 3] [--models default] [--json benchmarks/results.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pan21av.data.vocabulary import Vocabulary
    from pan21av.network.network import Network

HERE = Path(__file__).parent
MEMBERS = 21
CHARACTERS = 21_000
LENGTHS = (200, 1_000, 5_000, 21_000, 100_000)
WORDS_OF_SHORT = 30
TABLES_BELOW = "<!-- below: tables of the last run of bench.py -->"
FLOP_PER_POSITION = 60_000  # 50 units: 40,000 of the recurrence, both directions, and 20,000 of the attention
BACKENDS = {"kernel": "kernel", "torch": "reference"}  # our variants, and which of our implementations they are


# ---- what a measuring process does ------------------------------------------------------------


def make_texts(count: int, characters: int, seed: int = 0) -> list[str]:
    """Distinct texts with a natural spread of word frequencies."""
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [26 - i for i in range(26)]
    vocabulary = ["".join(rng.choices(letters, weights, k=rng.randint(1, 9))) for _ in range(30_000)]
    frequency = [1 / (rank + 3) for rank in range(len(vocabulary))]
    texts = []
    for _ in range(count):
        words = rng.choices(vocabulary, frequency, k=characters // 4)
        for i in range(9, len(words), 11):
            words[i] += rng.choice(".,,,!?;")
        texts.append(" ".join(words)[:characters])
    return texts


def make_network(preset: str, n_members: int) -> tuple[Network, Vocabulary]:
    """Random weights: how long they take does not depend on what they say."""
    import torch

    from pan21av.data.vocabulary import Vocabulary
    from pan21av.network.network import Network
    from pan21av.training.settings import PRESETS

    torch.manual_seed(0)
    words = sorted({w.strip(".,!?;") for t in make_texts(20, CHARACTERS, seed=1) for w in t.split()})[:5000]
    vocabulary = Vocabulary(tuple(words), tuple("abcdefghijklmnopqrstuvwxyz.,!?;"))
    network = Network(PRESETS[preset].model.encoder_alone, n_members, vocabulary.word_rows, vocabulary.char_rows)
    return network.requires_grad_(False).eval(), vocabulary


def measure_predict(task: dict) -> dict:
    """Encode and score all-distinct pairs; tokenising is timed with it, as users see it."""
    import torch

    from pan21av.data.batch import batch_of
    from pan21av.data.tokeniser import DEFAULT, encode_all, find_tokeniser
    from pan21av.network import recurrent
    from pan21av.network.checkpoint import Ensemble
    from pan21av.verifier import Verifier

    if task.get("models"):
        return _measure_shipped(task)
    network, vocabulary = make_network(task["preset"], task["members"])
    texts = make_texts(2 * task["pairs"], task["characters"])
    if task["variant"] == "plain":
        from plain import plain_vectors

        torch.set_num_threads(task["torch_threads"])
        torch.backends.mkldnn.enabled = task["onednn"]
        numbers = list(range(task["members"]))[task["part"] :: task["parts"]]
        plain_vectors(network, [batch_of(encode_all(texts[:2]), vocabulary, network.config)], numbers[:1])
        _start_together(task)
        began = time.perf_counter()
        tokens = encode_all(texts, limit=network.config.max_tokens)
        batches = [batch_of(tokens[i : i + 8], vocabulary, network.config) for i in range(0, len(tokens), 8)]
        vectors = plain_vectors(network, batches, numbers)
        seconds = time.perf_counter() - began
        checksum = float(vectors.double().abs().mean())
    else:
        ensemble = Ensemble(
            network, vocabulary, find_tokeniser(DEFAULT), limits=None, path=Path("bench"), info={"name": "bench"}
        )
        verifier = Verifier(ensemble, torch.device("cpu"), task["threads"])
        pairs = list(zip(texts[::2], texts[1::2], strict=True))
        with recurrent.only(BACKENDS[task["variant"]]):
            verifier.verify("warm up", "the caches")
            began = time.perf_counter()
            checksum = sum(verdict.score("dml").mean() for verdict in verifier.predict(pairs))
            seconds = time.perf_counter() - began
        tokens = encode_all(texts, limit=network.config.max_tokens)
    positions = sum(int(batch_of([one], vocabulary, network.config).windows.length.sum()) for one in tokens)
    return {"seconds": seconds, "positions": positions * task["members"], "checksum": checksum}


def _measure_shipped(task: dict) -> dict:
    """A trained ensemble as it is, without its guard: the texts here are no English."""
    from dataclasses import replace

    import torch

    from pan21av.network.checkpoint import find_ensemble, load_ensemble
    from pan21av.verifier import Verifier

    ensemble = load_ensemble(find_ensemble(task["models"]), torch.device("cpu"))
    verifier = Verifier(replace(ensemble, limits=None), torch.device("cpu"), task["threads"])
    texts = make_texts(2 * task["pairs"], task["characters"])
    verifier.verify("warm up", "the caches")
    began = time.perf_counter()
    checksum = sum(verdict.score("dml").mean() for verdict in verifier.predict(zip(texts[::2], texts[1::2])))
    seconds = time.perf_counter() - began
    windows = [int(_batch(verifier, [text]).windows.length.sum()) for text in texts]
    return {"seconds": seconds, "positions": sum(windows) * verifier.network.n_members, "checksum": checksum}


def _batch(verifier, texts: list[str]):
    from pan21av.data.batch import batch_of
    from pan21av.data.tokeniser import encode_all

    return batch_of(encode_all(texts, **verifier.ensemble.reading), verifier.ensemble.vocabulary, verifier.config)


AROUND = ("read JSON", "tokenise", "guard", "batch, with counting", "count n-grams", "n-gram part", "cohort", "scores")


def measure_around(task: dict) -> dict:
    """One thing that is not the encoder, on one core; `count n-grams` is part of the batch."""
    import numpy as np
    import torch

    from pan21av.data.batch import batch_of
    from pan21av.data.fitness import Shares
    from pan21av.data.jsonlines import parse_object
    from pan21av.data.tokeniser import encode_all
    from pan21av.verifier import Verifier

    verifier = Verifier.load(task["models"], device="cpu", threads=1)
    network, vocabulary = verifier.network, verifier.ensemble.vocabulary
    texts = make_texts(2 * task["pairs"], task["characters"])
    lines = [json.dumps({"id": "1", "pair": pair}).encode() for pair in zip(texts[::2], texts[1::2], strict=True)]
    tokens = encode_all(texts, **verifier.ensemble.reading)
    batch = batch_of(tokens, vocabulary, verifier.config)
    types = list(dict.fromkeys(token for one in tokens for token in one.types))
    index = {token: number for number, token in enumerate(types)}
    ids = [np.array([index[token] for token in one.types], dtype=np.int32)[one.ids] for one in tokens]

    def count() -> None:
        vocabulary.counter.count(vocabulary.counter.analyse(types), ids)

    def members(what):
        return lambda: [what(member) for member in verifier._networks]

    lev = torch.randn(1, len(texts), verifier.config.projected_dim)
    embedding = verifier.embed(texts[:2])
    first, second = embedding[[0] * task["pairs"]], embedding[[1] * task["pairs"]]
    steps = {
        "read JSON": lambda: [parse_object(line) for line in lines],
        "tokenise": lambda: encode_all(texts, **verifier.ensemble.reading),
        "guard": lambda: [Shares.of(one, vocabulary) for one in tokens],
        "batch, with counting": lambda: batch_of(tokens, vocabulary, verifier.config),
        "count n-grams": count,
        "n-gram part": members(lambda member: member.ngrams(batch.ngrams, batch.tokens.double())),
        "cohort": members(lambda member: member.embedding(lev, batch.tokens)),
        "scores": lambda: verifier.compare(first, second),
    }
    times = []
    with torch.inference_mode():
        for _ in range(3):
            began = time.perf_counter()
            steps[task["variant"]]()
            times.append(time.perf_counter() - began)
    positions = int(batch.windows.length.sum()) * network.n_members
    return {"seconds": statistics.median(times), "positions": positions, "checksum": 0.0}


def measure_arithmetic(task: dict) -> dict:
    """How long a matrix product takes that has as much arithmetic as a position: `positions` of them."""
    import torch

    torch.set_num_threads(1)
    a, b = torch.randn(768, 768), torch.randn(768, 768)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - began)
    positions = 2 * 768**3 / FLOP_PER_POSITION
    return {"seconds": min(times), "positions": positions, "checksum": 0.0}


def _start_together(task: dict) -> None:
    """Processes that share the work begin when all of them are ready."""
    if task["parts"] > 1:
        print("ready", flush=True)
        sys.stdin.readline()


def measure_train(task: dict) -> dict:
    """Forward and backward of the encoder on batches of pairs, one thread."""
    import torch

    from pan21av.data.batch import batch_of
    from pan21av.data.tokeniser import encode_all
    from pan21av.network import recurrent

    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = task.get("onednn", True)
    network, vocabulary = make_network(task["preset"], 1)
    texts = make_texts(2 * task["pairs"], task["characters"])
    batch = batch_of(encode_all(texts), vocabulary, network.config)
    if task["variant"] == "plain":
        from plain import PlainEncoder

        module = PlainEncoder(network, 0).requires_grad_(True)
        backend, run = nullcontext(), module.__call__
    else:
        module = network.encoder.requires_grad_(True)
        backend = recurrent.only(BACKENDS[task["variant"]])

        def run(batch):
            return module(batch).vectors

    times = []
    with backend:
        for _ in range(task["steps"] + 1):
            module.zero_grad(set_to_none=True)
            began = time.perf_counter()
            run(batch).square().sum().backward()
            times.append(time.perf_counter() - began)
    norm = sum(float(p.grad.norm()) for p in module.parameters() if p.grad is not None and p.dim() > 1)
    return {"seconds": statistics.median(times[1:]), "positions": int(batch.windows.length.sum()), "checksum": norm}


def worker() -> None:
    task = json.loads(sys.argv[2])
    measures = {
        "predict": measure_predict, "train": measure_train, "around": measure_around, "arithmetic": measure_arithmetic,
    }  # fmt: skip
    result = measures[task["what"]](task)
    result["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result), flush=True)


# ---- the run ---------------------------------------------------------------------------------


def start(task: dict) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": str(task.get("torch_threads", 1))}
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", json.dumps(task)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def measure(task: dict) -> dict:
    """One measurement; `processes` > 1 splits the members of the plain variant."""
    parts = task.get("processes", 1)
    started = [start({**task, "part": part, "parts": parts}) for part in range(parts)]
    if parts > 1:
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
    with ThreadPoolExecutor(parts) as pool:
        outputs = list(pool.map(lambda process: process.communicate()[0], started))
    results = [json.loads(output.splitlines()[-1]) for output in outputs]
    return {
        "seconds": max(r["seconds"] for r in results),
        "positions": results[0]["positions"],
        "checksum": sum(r["checksum"] for r in results) / parts,
        "megabytes": sum(r["megabytes"] for r in results),
    }


def medians(tasks: dict[str, dict], repeat: int) -> dict[str, dict]:
    """All tasks in turn, `repeat` times over; the run of median time of each."""
    runs: dict[str, list[dict]] = {name: [] for name in tasks}
    for _ in range(repeat):
        for name, task in tasks.items():
            runs[name].append(measure(task))
            print(f"  {name}: {runs[name][-1]['seconds']:.2f} s", file=sys.stderr, flush=True)
    return {
        name: {**sorted(results, key=lambda r: r["seconds"])[len(results) // 2], "task": tasks[name]}
        for name, results in runs.items()
    }


def predict_task(variant: str, preset: str, pairs: int, cores: int, **extra) -> dict:
    base = {
        "what": "predict", "variant": variant, "preset": preset, "members": MEMBERS, "pairs": pairs,
        "characters": CHARACTERS, "threads": cores, "torch_threads": cores,
    }  # fmt: skip
    return {**base, **extra}


def comparison(preset: str, cores: int, quick: bool, repeat: int) -> dict[str, dict]:
    """Without oneDNN the plain implementation is slower: shown at the paper's size alone."""
    few, many = (2, 8) if quick else (4, 32)
    tasks = {"kernel": predict_task("kernel", preset, many, cores), "torch": predict_task("torch", preset, few, cores)}
    for onednn in (True, False) if preset == "paper" else (True,):
        name = "oneDNN" if onednn else "no oneDNN"
        tasks[f"plain, {cores} threads, {name}"] = predict_task("plain", preset, few, cores, onednn=onednn)
        tasks[f"plain, {cores} processes, {name}"] = predict_task(
            "plain", preset, few, cores, onednn=onednn, processes=cores, torch_threads=1
        )
    return medians(tasks, repeat)


def training(quick: bool, repeat: int) -> dict[str, dict]:
    base = {"what": "train", "preset": "compact", "pairs": 10 if quick else 40, "characters": 4_000, "steps": 3}
    return medians(
        {
            "kernel": {**base, "variant": "kernel"},
            "torch": {**base, "variant": "torch"},
            "plain, oneDNN": {**base, "variant": "plain", "onednn": True},
            "plain, no oneDNN": {**base, "variant": "plain", "onednn": False},
        },
        repeat,
    )


def growth(cores: int, quick: bool, repeat: int) -> dict[str, dict]:
    """How the kernel's time grows with members."""
    base = predict_task("kernel", "compact", 4 if quick else 16, cores)
    return medians({str(n): {**base, "members": n} for n in (1, 3, 7, 21)}, repeat)


def _pairs_of(characters: int, pairs: int) -> int:
    """Pairs of texts of some length that take about as long as so many of CHARACTERS."""
    return max(2, min(400, pairs * CHARACTERS // characters))


def shipped(models: str, cores: int, quick: bool, repeat: int) -> dict[str, dict[str, dict]]:
    """The trained ensemble on 1 core and on all, at all lengths, and what is around its network."""
    pairs = 4 if quick else 32
    base = predict_task("kernel", "shipped", pairs, cores, models=models)
    around = {"what": "around", "models": models, "pairs": pairs, "characters": CHARACTERS}
    return {
        "cores": medians({str(n): {**base, "threads": n} for n in sorted({1, cores})}, repeat),
        "characters": medians(
            {str(n): {**base, "characters": n, "pairs": _pairs_of(n, pairs // 2)} for n in LENGTHS}, repeat
        ),
        "around": medians({name: {**around, "variant": name} for name in AROUND}, 1),  # each a median of three
    }


def commands(models: str, quick: bool) -> dict[str, dict]:
    """`pan21av predict` as a whole, process start and files included: one pair; short ones, as many and ten times as
    many, which the guard answers; and short ones that an ensemble without a guard embeds."""
    import memory

    from pan21av.network.checkpoint import MANIFEST, find_ensemble

    found = {}
    with tempfile.TemporaryDirectory(prefix="pan21av-bench-") as name:
        folder = Path(name)
        bare = folder / "bare"
        bare.mkdir()
        for file in find_ensemble(models).iterdir():
            (bare / file.name).symlink_to(file.resolve())
        manifest = json.loads((bare / MANIFEST).read_text())
        (bare / MANIFEST).unlink()
        (bare / MANIFEST).write_text(json.dumps({**manifest, "limits": None}))
        words = [word for text in make_texts(20, CHARACTERS, seed=1) for word in text.split()]
        some = 1_000 if quick else 10_000
        for title, pairs, ensemble in (
            ("one pair", 1, models),
            ("short pairs, guarded", some, models),
            ("short pairs, guarded, ten times as many", 10 * some, models),
            ("short pairs, embedded", some // 4, str(bare)),
            ("short pairs, embedded, twice as many", some // 2, str(bare)),
        ):
            file, rng = folder / "pairs.jsonl", random.Random(0)
            with file.open("w") as out:
                for number in range(pairs):
                    pair = [" ".join(rng.choices(words, k=WORDS_OF_SHORT)) for _ in range(2)]
                    out.write(json.dumps({"id": str(number), "pair": pair}) + "\n")
            command = [sys.executable, "-m", "pan21av", "-q", "predict", "-i", str(file), "-o", str(folder / title)]
            found[title] = {"pairs": pairs, **memory.run([*command, "--models", ensemble])}
            print(f"  {title}: {found[title]['seconds']:.1f} s", file=sys.stderr, flush=True)
    return found


def rows(results: dict[str, dict]) -> list[tuple[str, float, float, float, float]]:
    """(name, pairs a second, seconds a pair, us a position, megabytes)"""
    return [
        (name, r["task"]["pairs"] / r["seconds"], r["seconds"] / r["task"]["pairs"],
         1e6 * r["seconds"] / r["positions"], r["megabytes"])
        for name, r in results.items()
    ]  # fmt: skip


def table(title: str, results: dict[str, dict], arithmetic: float = 0.0, last: dict[str, dict] | None = None) -> str:
    """`arithmetic`: seconds of a position by arithmetic alone, on one core; `last`: the same results of another run."""
    before = {name: each for name, _, each, _, _ in rows(last or {})}
    best_plain = max((row[1] for row in rows(results) if row[0].startswith("plain")), default=None)
    lines = [
        f"### {title}",
        "",
        "| | pairs/s | s/pair | µs/position | MiB | against best plain | of the arithmetic | against the last run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rate, each, position, memory in rows(results):
        ratio = f"{rate / best_plain:.2f}x" if best_plain else ""
        task = results[name]["task"]
        cores = task.get("threads", 1) if task["what"] == "predict" else 1
        share = f"{1e6 * arithmetic / cores / position:.0%}" if arithmetic and task["what"] == "predict" else ""
        faster = f"{before[name] / each:.2f}x" if name in before else ""
        lines.append(
            f"| {name} | {rate:.2f} | {each:.4f} | {position:.2f} | {memory:.0f} | {ratio} | {share} | {faster} |"
        )
    return "\n".join(lines)


def picture(report: dict, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    bars = rows(report["paper"])
    axes[0].barh([b[0] for b in bars], [b[2] for b in bars])
    axes[0].set(title="paper size, 21 members", xlabel="seconds a pair")
    axes[0].invert_yaxis()
    lengths = report["shipped"].get("characters", {})
    for axis, name, series in ((axes[1], "members", report["growth"]), (axes[2], "characters", lengths)):
        each = [r["seconds"] / r["task"]["pairs"] for r in series.values()]
        axis.plot([int(k) for k in series], each, marker="o")
        axis.set(title=f"growth with {name}", xlabel=name, ylabel="seconds a pair", ylim=(0, None))
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few pairs, for a look")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--models", default="default", help="the trained ensemble to measure")
    parser.add_argument("--json", type=Path, default=HERE / "results.json")
    options = parser.parse_args()
    from pan21av.runtime.parallel import usable_cores

    cores = usable_cores()
    recorded = sorted(HERE.glob("recorded-*.json"))
    last = json.loads(recorded[-1].read_text()) if recorded else {}
    trained = _loads(options.models)
    product = measure({"what": "arithmetic"})
    report = {
        "machine": f"{cpu_name()}, {cores} cores",
        "date": time.strftime("%Y-%m-%d"),
        "arithmetic": product["seconds"] / product["positions"],
        **{preset: comparison(preset, cores, options.quick, options.repeat) for preset in ("paper", "compact")},
        "training": training(options.quick, options.repeat),
        "growth": growth(cores, options.quick, options.repeat),
        "shipped": shipped(options.models, cores, options.quick, options.repeat) if trained else {},
        "commands": commands(options.models, options.quick) if trained else {},
    }
    tables = page(report, last, options.repeat)
    print(tables)
    options.json.write_text(json.dumps(report, indent=1))
    if not options.quick:
        refresh(HERE / "README.md", tables)
    picture(report, options.json.with_suffix(".png"))


def refresh(readme: Path, tables: str) -> None:
    """All that comes after TABLES_BELOW is of the last run."""
    text, found, _ = readme.read_text(encoding="utf-8").partition(TABLES_BELOW)
    if found:
        readme.write_text(f"{text}{found}\n\n{tables}\n", encoding="utf-8")


def _loads(models: str) -> bool:
    from pan21av.errors import PanError
    from pan21av.network.checkpoint import find_ensemble, read_manifest

    try:
        read_manifest(find_ensemble(models))
        return True
    except PanError as error:
        print(f"no trained ensemble is measured: {error}", file=sys.stderr)
        return False


def page(report: dict, last: dict, repeat: int) -> str:
    """All tables, each beside what the last run found."""
    arithmetic = report["arithmetic"]
    said = f"arithmetic {1e6 * arithmetic:.2f} µs a position and core"
    sections = [f"Machine: {report['machine']}; {report['date']}; median of {repeat}; {said}."]
    for preset in ("paper", "compact"):
        title = f"Prediction, {preset} size, {MEMBERS} members, {CHARACTERS:,} characters"
        sections.append(table(title, report[preset], arithmetic, last.get(preset)))
    sections.append(table("Training step, compact size, one thread", report["training"], 0.0, last.get("training")))
    before = last.get("growth", {})
    sections.append(table("Growth with members (compact)", report["growth"], arithmetic, before.get("members")))
    shipped = report["shipped"]
    for name in ("cores", "characters") if shipped else ():
        # The ensemble of that time had no n-grams; its encoder was of the same size.
        sections.append(table(f"Shipped ensemble: {name}", shipped[name], arithmetic, before.get(name)))
    if shipped:
        sections += [around_table(shipped["around"], shipped["cores"]["1"]), commands_table(report["commands"])]
    return "\n\n".join(sections)


def around_table(around: dict[str, dict], whole: dict) -> str:
    """What is not the encoder, as a share of all the time of a pair; on one core."""
    each = whole["seconds"] / whole["task"]["pairs"]
    lines = ["### Shipped ensemble: around the encoder, one core", "", "| | ms/pair | share |", "|---|---|---|"]
    for name, _, seconds, _, _ in rows(around):
        lines.append(f"| {name} | {1e3 * seconds:.2f} | {seconds / each:.1%} |")
    total = sum(seconds for name, _, seconds, _, _ in rows(around) if name != "count n-grams")  # part of the batch
    lines.append(f"| together | {1e3 * total:.2f} | {total / each:.1%} |")
    return "\n".join(lines)


def commands_table(commands: dict[str, dict]) -> str:
    lines = [
        f"### The command `predict`, shipped ensemble; short pairs: texts of {WORDS_OF_SHORT} words",
        "",
        "| | pairs | s | pairs/s | MiB |",
        "|---|---|---|---|---|",
    ]
    for name, r in commands.items():
        rate = r["pairs"] / r["seconds"]
        lines.append(f"| {name} | {r['pairs']:,} | {r['seconds']:.1f} | {rate:,.1f} | {r['MiB']:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    worker() if sys.argv[1:2] == ["--worker"] else main()
