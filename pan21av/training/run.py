"""The verb: prepare once, train the members side by side, put the ensemble together."""

from __future__ import annotations

import fcntl
import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from .. import __version__
from ..data.readers import read_plain_file
from ..engines import Engine, find_engine
from ..errors import EnvironmentFault, InputError
from ..files import output_folder, write_whole, writing
from ..network.checkpoint import save_ensemble
from ..runtime.device import choose_device, describe, warn_without_kernel
from ..runtime.parallel import usable_cores
from ..runtime.progress import clock
from ..vote import check_odd
from .calibration import balanced_pairs
from .card import model_card
from .ensemble_scale import learn_calibration
from .limits import min_tokens
from .member import (
    HISTORY,
    RESULT,
    STAGE_ONE,
    MemberTask,
    finished_files,
    full_model,
    npz,
    stage_one_record,
    train_member,
)
from .prepare import format_table, prepare
from .prepared import Prepared
from .report import ensemble_report, history_plot, known_sources, member_scores, reliability_plot
from .reuse import reuse
from .settings import Settings, load_settings
from .sources import deal_sources
from .stage1 import CHECKPOINT
from .stage2 import CHECKPOINTS
from .streams import member_seed
from .tables import CALIBRATION_FILE, HISTORY_FILE, PAIRS_FILE, SCORES_FILE, Stored, report_files
from .watch import Watch

log = logging.getLogger("pan21av")


def train(
    data: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    truth: str | Path | None = None,
    vectors: str | Path | None = None,
    settings: Settings | None = None,
    notes: str | Path | None = None,
    n_members: int = 21,
    seed: int = 1,
    work: str | Path | None = None,
    jobs: int | None = None,
    device: str = "auto",
    engine: str = "local",
    address: str | None = None,
    resources: str | None = None,
) -> dict[str, Any]:
    """Train an ensemble into the folder `output`; unfinished work is kept in `work` and resumed.

    `data` is one file or folder of documents or PAN pairs, or several; `settings` None is the shipped recipe. With
    engine "ray" members train on the cluster at `address`, whose nodes must all see `work`. Returns the validation
    figures that ensemble.json holds.
    """
    began = time.time()
    try:
        check_odd(n_members)
    except ValueError as error:
        raise InputError(str(error)) from None
    settings = settings or load_settings()
    files = [Path(data)] if isinstance(data, (str, Path)) else [Path(path) for path in data]
    output = output_folder(output)
    work = Path(work) if work else output.with_name(output.name + ".work")
    text = read_plain_file(Path(notes)) if notes else ""
    machines = find_engine(engine, address, resources)
    if engine == "local":
        chosen = choose_device(device)
        warn_without_kernel(chosen)
        jobs = min(jobs or _default_jobs(chosen), n_members)
        devices = _devices(chosen)
        log.info("pan21av %s: %d members, %d at a time, on %s", __version__, n_members, jobs, describe(chosen, jobs))
    else:
        jobs, devices = jobs or n_members, [device]  # every node chooses its own
        log.info("pan21av %s: %d members, on a cluster", __version__, n_members)
    with _locked(work):
        with writing(work):
            prepared = prepare(
                files, work / "prepared", settings, truth=_path(truth), vectors=_path(vectors), seed=seed
            )
        log.info("%s", format_table(prepared.table))
        identity = {"settings": settings.to_dict(), "seed": seed, "corpus": prepared.fingerprint}
        tasks = _tasks(prepared, settings, n_members, seed, work, devices, identity)
        members, stages = reuse(tasks, output, identity, prepared.vocabulary.sha256)
        if members or stages:
            log.info("%d members taken over from %s, and stage one of %d", members, output, stages)
        _train_members(tasks, jobs, machines)
        return _assemble(tasks, prepared, identity, output, text, time.time() - began)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """The work folder, for this process alone."""
    with writing(work):
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / "lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentFault(f"another training is at work in {work}") from None
        try:
            yield
        except InputError:  # nothing will come of this
            if {path.name for path in work.iterdir()} <= {"lock", "prepared.part"}:
                shutil.rmtree(work, ignore_errors=True)
            raise


def _default_jobs(device: torch.device) -> int:
    return torch.cuda.device_count() if device.type == "cuda" else usable_cores()


def _devices(device: torch.device) -> list[str]:
    """The devices that members take turns on."""
    if device.type == "cuda" and device.index is None:
        return [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    return [str(device)]


def _tasks(
    prepared: Prepared, settings: Settings, n_members: int, seed: int, work: Path, devices: list[str],
    identity: dict[str, Any],
) -> list[MemberTask]:  # fmt: skip
    """One task per member; what an earlier run of other settings left unfinished in `work` is removed."""
    written = orjson.dumps(identity, option=orjson.OPT_INDENT_2)
    record = work / "settings.json"
    if not record.exists() or record.read_bytes() != written:
        if any(work.glob(f"member-*/{RESULT}")):
            raise InputError(
                f"{work} holds members trained with other settings or data; take another --work, or remove it"
            )
        for name in (CHECKPOINT, STAGE_ONE, *CHECKPOINTS):
            for file in work.glob(f"member-*/{name}"):
                file.unlink()
        write_whole(record, written)
    dealt = deal_sources(len(prepared.sources), settings.data.source_share, seed)
    return [
        MemberTask(
            number,
            member_seed(seed, number),
            prepared.folder.resolve(),
            work.resolve() / f"member-{number:02d}",
            settings,
            devices[number % len(devices)],
            tuple(int(source) for source in sources),
        )
        for number, sources in zip(range(1, n_members + 1), dealt, strict=False)
    ]


def _train_members(tasks: list[MemberTask], jobs: int, machines: Engine) -> None:
    left = [task for task in tasks if not task.finished]
    if len(left) < len(tasks):
        log.info("%d of %d members are finished already", len(tasks) - len(left), len(tasks))
    if not left:
        return
    for task in left:  # a member writes its history anew from its checkpoint
        (task.folder / HISTORY).unlink(missing_ok=True)
    with Watch(left) as watch:
        for number in machines.run_tasks(train_member, left, jobs=jobs, tick=watch.look):
            watch.look()
            watch.finished(tasks[number - 1])


def _assemble(
    tasks: list[MemberTask], prepared: Prepared, identity: dict[str, Any], output: Path, notes: str, seconds: float
) -> dict[str, Any]:
    results, scores = [task.result for task in tasks], member_scores(tasks)
    knows = known_sources(tasks, len(prepared.sources))
    calibration = learn_calibration(scores, prepared, knows)
    report = ensemble_report(scores, prepared, knows, calibration)
    provenance = {
        "version": __version__,
        **identity,
        "core_seconds": round(sum(result["seconds"] for result in results)),
        "finished": time.strftime("%Y-%m-%d", time.gmtime()),
        "splits": prepared.table,
    }
    limits = replace(prepared.limits, min_tokens=min_tokens(tasks[0].settings))
    info = {"limits": limits.to_dict(), "training": provenance, **report}
    if calibration is not None:
        info["calibration"] = asdict(calibration)
    # Which documents of the corpus (counted from 0, the short ones left out) the figures are about.
    pairs = {
        "pairs": prepared.validation.tolist(),
        "same": prepared.catalogue.same_author(prepared.validation).tolist(),
    }
    balanced = balanced_pairs(prepared)
    kinds = {"pairs": balanced.tolist(), "kinds": prepared.catalogue.kinds(balanced).tolist()}
    histories = [stage_one_record(task)["history"] for task in tasks]
    stored = Stored(
        output.name, prepared.table, scores, np.array(pairs["same"]), np.array(kinds["kinds"]), histories,
        calibration,
    )  # fmt: skip
    before = output / "training.png"  # of the ensemble that all of stage one was reused from
    extra = {
        "MODEL_CARD.md": model_card({"name": output.name, **info, "members": results}, notes).encode(),
        PAIRS_FILE: orjson.dumps(pairs),
        CALIBRATION_FILE: orjson.dumps(kinds),
        HISTORY_FILE: orjson.dumps(histories),
        SCORES_FILE: npz(scores),
        **report_files(stored),
        "training.png": history_plot(tasks) or (before.read_bytes() if before.exists() else None),
        "reliability.png": reliability_plot(scores, prepared, calibration),
    }
    save_ensemble(
        output,
        config=full_model(tasks[0].settings, prepared),
        tokeniser=tasks[0].settings.data.tokeniser,
        vocabulary=prepared.vocabulary,
        members=[finished_files(task) for task in tasks],
        entries=results,
        info=info,
        extra={name: data for name, data in extra.items() if data},
    )
    log.info("%d members -> %s (%s)", len(tasks), output, clock(seconds))
    validation: dict[str, Any] = report["validation"]
    return validation
