"""The verb: prepare once, train the members side by side, put the ensemble together."""

from __future__ import annotations

import fcntl
import io
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from tqdm import tqdm

from .. import __version__
from ..checkpoint import save_ensemble
from ..device import choose_device, describe, warn_without_kernel
from ..engines import Engine, find_engine
from ..ensemble import check_odd
from ..errors import EnvironmentFault, InputError
from ..parallel import usable_cores
from ..progress import clock
from ..text import RECIPE
from .corpus import Document
from .member import ENSEMBLE_SCORES, HISTORY, PARTS, RESULT, MemberTask, adopt, train_member, with_strangers
from .prepare import Prepared, format_table, prepare
from .report import ensemble_report, member_scores, model_card, picture, reliability_picture
from .settings import TrainSettings, load_settings

log = logging.getLogger("pan21av")


def train(
    data: Path,
    output: Path,
    *,
    truth: Path | None = None,
    vectors: Path | None = None,
    preset: str = "compact",
    config: Path | None = None,
    assignments: Iterable[str] = (),
    notes: Path | None = None,
    members: int = 21,
    seed: int = 1,
    work: Path | None = None,
    jobs: int | None = None,
    device: str = "auto",
    engine: str = "local",
    address: str | None = None,
    resources: str | None = None,
) -> dict[str, Any]:
    """Train an ensemble into the folder `output`; unfinished work is kept in `work` and resumed.

    With engine "ray" members train on the cluster at `address`, whose nodes must all see `work`.
    Returns the validation figures that ensemble.json holds.
    """
    began = time.time()
    try:
        check_odd(members)
        settings = load_settings(preset, config, assignments)
    except ValueError as error:
        raise InputError(str(error)) from None
    work = work or output.with_name(output.name + ".work")
    machines = find_engine(engine, address, resources)
    if engine == "local":
        chosen = choose_device(device)
        warn_without_kernel(chosen)
        jobs = min(jobs or _default_jobs(chosen), members)
        devices = _devices(chosen)
        log.info("pan21av %s: %d members, %d at a time, on %s", __version__, members, jobs, describe(chosen, jobs))
    else:
        jobs, devices = jobs or members, [device]  # every node chooses its own
        log.info("pan21av %s: %d members, on a cluster", __version__, members)
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until the process ends
    except BlockingIOError:
        raise EnvironmentFault(f"another training is at work in {work}") from None
    except OSError as error:
        raise EnvironmentFault(f"{error.filename or work}: {error.strerror}") from None
    with lock:
        return _train(
            data, output, truth, vectors, settings, members, seed, work, jobs, devices, machines, notes, began
        )


def _train(
    data: Path, output: Path, truth: Path | None, vectors: Path | None, settings: TrainSettings, members: int,
    seed: int, work: Path, jobs: int, devices: list[str], machines: Engine, notes: Path | None, began: float,
) -> dict[str, Any]:  # fmt: skip
    """What `train` does once the work folder is its own."""
    try:
        prepared = prepare(
            data, work / "prepared", settings, truth=truth, vectors=vectors, seed=seed, log=log.info, progress=_bar
        )
    except OSError as error:
        raise EnvironmentFault(f"{error.filename or work}: {error.strerror}") from None
    log.info("%s", format_table(prepared.table))
    tasks = _tasks(prepared, settings, members, seed, work, devices)
    adopted, bodies = adopt(tasks, output, _identity(prepared, settings, seed))
    if adopted or bodies:
        log.info("%d members taken over from %s, and stage one of %d", adopted, output, bodies)
    _run_all(tasks, jobs, settings, machines)
    return _assemble(tasks, prepared, settings, seed, output, notes, time.time() - began)


def _default_jobs(device: torch.device) -> int:
    return torch.cuda.device_count() if device.type == "cuda" else usable_cores()


def _devices(device: torch.device) -> list[str]:
    """The devices that members take turns on."""
    if device.type == "cuda" and device.index is None:
        return [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    return [str(device)]


def _bar(documents: Iterator[Document]) -> Iterator[Document]:
    return iter(tqdm(documents, desc="tokenising", unit=" documents", disable=not sys.stderr.isatty()))


def _identity(prepared: Prepared, settings: TrainSettings, seed: int) -> dict[str, Any]:
    """What two runs must share for their members to be interchangeable."""
    return {"settings": settings.to_dict(), "seed": seed, "corpus": prepared.fingerprint}


def _tasks(
    prepared: Prepared, settings: TrainSettings, members: int, seed: int, work: Path, devices: list[str]
) -> list[MemberTask]:
    """One task per member; seeds derive from the one seed, so that member 7 of 9 is member 7 of 21."""
    resolved = settings.to_dict()
    identity = orjson.dumps(_identity(prepared, settings, seed), option=orjson.OPT_INDENT_2)
    record = work / "settings.json"
    if record.exists() and record.read_bytes() != identity and any(work.glob(f"member-*/{RESULT}")):
        raise InputError(f"{work} holds members trained with other settings or data; take another --work, or remove it")
    if not record.exists() or record.read_bytes() != identity:
        for checkpoint in work.glob("member-*/*.pt"):
            checkpoint.unlink()
        record.write_bytes(identity)
    return [
        MemberTask(
            number,
            int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) >> 1,
            prepared.folder.resolve(),
            work.resolve() / f"member-{number:02d}",
            resolved,
            devices[number % len(devices)],
        )
        for number in range(1, members + 1)
    ]


def _run_all(tasks: list[MemberTask], jobs: int, settings: TrainSettings, machines: Engine) -> None:
    left = [task for task in tasks if not task.finished]
    if len(left) < len(tasks):
        log.info("%d of %d members are finished already", len(tasks) - len(left), len(tasks))
    if not left:
        return
    for task in left:  # a member writes its history anew from its checkpoint
        (task.folder / HISTORY).unlink(missing_ok=True)
    watch = _Watch(left, settings.stage_one_epochs)
    try:
        for number in machines.run_tasks(train_member, left, jobs=jobs, tick=watch.look):
            watch.look()
            result = orjson.loads((tasks[number - 1].folder / RESULT).read_bytes())
            figures = result["validation"]
            auc, overall, with_o2d2 = figures["ual"]["auc"], figures["ual"]["overall"], figures["o2d2"]["overall"]
            watch.say(
                f"member {number:2d} finished in {clock(result['seconds'])}: "
                f"validation AUC {auc:.3f}, overall {overall:.3f}, with O2D2 {with_o2d2:.3f}"
            )
    finally:
        watch.close()


class _Watch:
    """Follows the members' history files: a line per epoch, and a bar over all on a terminal."""

    def __init__(self, tasks: list[MemberTask], epochs: int) -> None:
        self.tasks = tasks
        self.seen = dict.fromkeys((task.number for task in tasks), 0)
        terminal = sys.stderr.isatty()
        self.bar = tqdm(total=len(tasks) * epochs, unit=" epochs", desc="all members", disable=not terminal)

    def say(self, line: str) -> None:
        if self.bar.disable:
            log.info("%s", line)
        else:
            self.bar.write(line, file=sys.stderr)

    def look(self) -> None:
        for task in self.tasks:
            try:
                lines = (task.folder / HISTORY).read_bytes().splitlines(keepends=True)
            except OSError:
                continue
            for line in lines[self.seen[task.number] :]:
                if not line.endswith(b"\n"):
                    break
                self.seen[task.number] += 1
                self._show(task.number, orjson.loads(line))

    def _show(self, number: int, record: dict[str, Any]) -> None:
        if record["stage"] in ("warm-up", "pairs"):
            self.bar.update()
        elif record["stage"] == "o2d2" and record["epoch"] % 20:
            return  # these take a second each
        names = (
            "loss",
            "held_out_loss",
            "dml_loss",
            "bfs_loss",
            "ual_loss",
            "accuracy",
            "topic_accuracy",
            "dev_auc_distance",
            "auc",
            "overall",
            "seconds",
        )
        values = "  ".join(f"{name} {record[name]:.4g}" for name in names if name in record)
        self.say(f"member {number:2d}  {record['stage']:8s} epoch {record['epoch']:3d}  {values}")

    def close(self) -> None:
        self.bar.close()


def _assemble(
    tasks: list[MemberTask], prepared: Prepared, settings: TrainSettings, seed: int, output: Path,
    notes: Path | None, seconds: float,
) -> dict[str, Any]:  # fmt: skip
    results = [orjson.loads((task.folder / RESULT).read_bytes()) for task in tasks]
    report = ensemble_report(tasks, prepared)
    provenance = {
        "version": __version__,
        **_identity(prepared, settings, seed),
        "core_seconds": round(sum(r["seconds"] for r in results)),
        "finished": time.strftime("%Y-%m-%d", time.gmtime()),
        "splits": prepared.table,
    }
    info = {"training": provenance, **report}
    extra = {
        "MODEL_CARD.md": model_card(output.name, info, results, notes.read_text("utf-8") if notes else "").encode(),
        # Which documents of the corpus (counted from 0, the short ones left out) the figures are about.
        "validation_pairs.json": orjson.dumps(
            {
                "pairs": prepared.validation.tolist(),
                "same": prepared.catalogue.same_author(prepared.validation).tolist(),
            }
        ),
        ENSEMBLE_SCORES: _npz(member_scores(tasks)),
    }
    before = output / "training.png"  # of the ensemble that all of stage one was taken over from
    drawn = {
        "training.png": picture(tasks) or (before.read_bytes() if before.exists() else None),
        "reliability.png": reliability_picture(tasks, prepared),
    }
    extra |= {name: data for name, data in drawn.items() if data}
    save_ensemble(
        output,
        config=with_strangers(settings, prepared).model,
        recipe=RECIPE,
        vocabulary=prepared.vocabulary,
        members=[{part: (task.folder / f"{part}.safetensors").read_bytes() for part in PARTS} for task in tasks],
        entries=results,
        info=info,
        extra=extra,
    )
    log.info("%d members -> %s (%s)", len(tasks), output, clock(seconds))
    validation: dict[str, Any] = report["validation"]
    return validation


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
