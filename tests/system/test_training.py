"""Whole training runs: killed and resumed, reused, of every kind of member; and whether anything is learnt."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import generated_corpus
import numpy as np
import pytest
import torch
from safetensors.torch import load as parse_safetensors
from support import HANGS, set_options, small, weights

from pan21av import Verifier, report
from pan21av.errors import InputError
from pan21av.metrics import auc
from pan21av.training.member import RESULT, STAGE_ONE, STAGE_TWO
from pan21av.training.prepared import VALIDATE, Prepared
from pan21av.training.run import train
from pan21av.training.settings import load_settings
from pan21av.training.stage1 import CHECKPOINT
from pan21av.training.tokenising import JOURNAL


def history(work, number=1) -> list[dict]:
    """What a member has logged so far; a line that is being written does not count."""
    try:
        data = (work / f"member-{number:02d}" / "history.jsonl").read_bytes()
    except OSError:
        return []
    return [json.loads(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def names_in(file) -> set[str]:
    """The parts of a network that a file has tensors of."""
    return {name.partition(".")[0] for name in parse_safetensors(file.read_bytes())}


# ---- killed ----

# Epochs that leave time for a kill between the first and the last.
KILLED = ["contrastive.epochs=6", "contrastive.steps=16", "abstention.epochs=120"]


def kill_when(happened, arguments, log) -> None:
    """Start the command, wait for an event, kill it and all its processes; it must have been alive until then."""
    with log.open("ab") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out, start_new_session=True)
    deadline = time.monotonic() + HANGS
    try:
        while not happened():
            assert process.poll() is None, "it ended before the event:\n" + log.read_text()
            assert time.monotonic() < deadline, "the event never came:\n" + log.read_text()
            time.sleep(0.005)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended by itself before it could be killed"


def test_killed_anywhere_it_resumes_bit_for_bit(small_corpus, tmp_path):
    """In preparation, in stage one and in stage two; then the weights of an unbroken run, and nothing done twice."""
    out, work, log = tmp_path / "killed", tmp_path / "killed.work", tmp_path / "log"
    options = ["-o", out, "--preset", "compact", "--members", 1, "--jobs", 1, *set_options(*KILLED)]
    arguments = [sys.executable, "-m", "pan21av", "train", small_corpus, *options]
    arguments = [str(argument) for argument in arguments]
    first, part = work / "member-01", work / "prepared.part"

    kill_when(part.exists, arguments, log)
    assert part.exists()
    assert not (work / "prepared").exists()

    kill_when(lambda: len(history(work)) >= 2, arguments, log)
    assert (first / CHECKPOINT).exists()
    assert not (first / STAGE_ONE).exists()
    done, prepared = history(work)[:2], (work / "prepared" / "tokens.i32").stat()
    assert [record["epoch"] for record in done] == [1, 2]

    kill_when(lambda: any(record["stage"] in ("heads", "o2d2") for record in history(work)), arguments, log)
    assert (first / STAGE_ONE).exists()
    assert not (first / RESULT).exists()
    assert history(work)[:2] == done  # with the seconds that they took before the kill: they were not repeated
    stage_one = (first / STAGE_ONE).stat()
    assert not out.exists()

    subprocess.run(arguments, check=True, capture_output=True, timeout=HANGS)
    assert not (first / CHECKPOINT).exists()
    for before, file in ((prepared, work / "prepared" / "tokens.i32"), (stage_one, first / STAGE_ONE)):
        assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns), file

    train(small_corpus, tmp_path / "whole", settings=small(*KILLED), n_members=1, jobs=1)
    assert len(weights(out)) == 2
    assert weights(out) == weights(tmp_path / "whole")
    info, whole = (json.loads((folder / "ensemble.json").read_text()) for folder in (out, tmp_path / "whole"))
    assert info["validation"] == whole["validation"]
    assert set(info["validation"]) == {"dml", "bfs", "ual", "o2d2", "ensemble", "ensemble_o2d2"}
    assert info["training"]["settings"] == small(*KILLED).to_dict()
    assert (tmp_path / "whole" / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "ensemble + O2D2" in (out / "MODEL_CARD.md").read_text()
    # Scores were fitted anew: stage one's file knows nothing of them.
    assert names_in(out / "member-01.stage1.safetensors") == {"encoder", "metric"}
    assert names_in(out / "member-01.stage2.safetensors") == {"dml", "bfs", "ual", "o2d2", "cohort"}


# A training by the preset "paper" whose checkpoints, else minutes apart, are at every step, and its journal's entries
# at every 32 texts. Worker processes import the main module too, so that holds for all of them. Every checkpoint
# leaves a line in the file of events.
EAGER = """
import sys
from pathlib import Path
from pan21av.training import steps, tokenising

steps.SECONDS, tokenising.TASKS_PER_ENTRY = 0, 2
write_tensors = steps.write_tensors

def write_and_tell(path, content):
    write_tensors(path, content)
    with Path(sys.argv[0]).with_name("events").open("a") as out:
        out.write(f"{path.name}\\n")

steps.write_tensors = write_and_tell  # before others import it
from pan21av.cli import main

if __name__ == "__main__":
    main()
"""
# Pairs only, then O2D2, as the paper has it; small enough to be begun seven times.
PAPER_KILLED = [
    "data.drawing=published", "contrastive.epochs=0", "pairs.epochs=3", "pairs.min_windows=0", "heads.epochs=0",
    "calibration.cohort=0", "calibration.views=1", "abstention.epochs=60",
]  # fmt: skip
PHASES = ("preparation", "stage one", "stage two")
KILLS_PER_PHASE = 2
BEFORE_THE_END = 0.8  # of a phase: a busy machine may notice an event late


def journal_entries(work) -> int:
    try:
        return (work / "prepared.part" / JOURNAL).read_bytes().count(b"\n")
    except OSError:
        return 0


@pytest.mark.parametrize("seed", [1])
def test_killed_at_random_moments_of_every_phase(tmp_path, seed):
    """SIGKILL to all processes of a real training, twice in each phase, at moments drawn from the events of an unbroken
    one; then to the byte its weights."""
    corpus, script, events = tmp_path / "documents.jsonl", tmp_path / "eager.py", tmp_path / "events"
    generated_corpus.write(corpus, generated_corpus.documents(120, each=4, topics=8, sentences=10))
    script.write_text(EAGER)

    def command(name):
        options = ["-o", tmp_path / name, "--preset", "paper", "--members", 1, "--jobs", 1, "--device", "cpu"]
        words = [sys.executable, script, "train", corpus, *options, *set_options(*PAPER_KILLED)]
        return [str(word) for word in words]

    def happened() -> Counter:
        """Checkpoints so far, by phase."""
        names = events.read_text().split() if events.exists() else []
        return Counter(PHASES[1] if name == CHECKPOINT else PHASES[2] for name in names)

    subprocess.run(command("whole"), check=True, capture_output=True, timeout=HANGS)
    total = happened()
    total[PHASES[0]] = 1 + 480 // 32  # entries of the journal, and its head
    assert min(total.values()) >= 10
    events.unlink()

    rng, moments = random.Random(seed), []
    for phase in PHASES:
        possible = range(1, int(BEFORE_THE_END * total[phase]))
        moments += [(phase, at) for at in sorted(rng.sample(possible, KILLS_PER_PHASE))]
    print(f"killed at {moments} of {dict(total)}")  # which pytest shows on failure
    work, log = tmp_path / "killed.work", tmp_path / "log"
    member = work / "member-01"
    for phase, at in moments:
        if phase == PHASES[0]:
            kill_when(lambda at=at: journal_entries(work) >= at, command("killed"), log)
            assert not (work / "prepared").exists()
        else:
            # A resumed run repeats what came after its checkpoint: the count runs ahead of the work, never behind.
            kill_when(lambda phase=phase, at=at: happened()[phase] >= at, command("killed"), log)
            assert (work / "prepared").exists()
            assert (member / STAGE_ONE).exists() == (phase == PHASES[2])
            assert not (member / RESULT).exists()
    subprocess.run(command("killed"), check=True, capture_output=True, timeout=HANGS)
    assert len(weights(tmp_path / "whole")) == 2
    hashes = [
        {name: hashlib.sha256(data).hexdigest() for name, data in weights(tmp_path / run).items()}
        for run in ("whole", "killed")
    ]
    assert hashes[0] == hashes[1]


# ---- reused ----


def test_finished_members_are_kept_and_other_settings_refused(tmp_path):
    """On a corpus of one topic: nothing can be said of topics then, and nothing breaks by that."""
    out, work, corpus = tmp_path / "one", tmp_path / "one.work", tmp_path / "documents.jsonl"
    docs = generated_corpus.documents(60, each=4, topics=8, sentences=10)
    generated_corpus.write(corpus, [{key: doc[key] for key in ("author", "text")} for doc in docs])
    train(corpus, out, settings=small(), n_members=1, jobs=1)
    assert not any("topic_accuracy" in record for record in history(work)[:4])  # never measured
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    kinds = json.loads((out / "ensemble.json").read_text())["training"]["splits"]["validation"]
    assert kinds["SA_DF"] == kinds["DA_DF"] == 0 < kinds["SA_SF"]
    result = work / "member-01" / RESULT
    stamp = result.stat().st_mtime_ns
    train(corpus, out, settings=small(), n_members=1, jobs=1)
    assert result.stat().st_mtime_ns == stamp
    with pytest.raises(InputError, match="other settings"):
        train(corpus, out, settings=small("pairs.lr=0.5"), n_members=1, jobs=1)
    # On another machine only the ensemble is left: its members are taken over, the others trained.
    before = weights(out)
    train(corpus, out, settings=small(), n_members=3, jobs=2, work=tmp_path / "elsewhere")
    adopted = json.loads((tmp_path / "elsewhere" / "member-01" / RESULT).read_text())
    assert adopted == json.loads(result.read_text())
    assert not history(tmp_path / "elsewhere", 1)
    assert history(tmp_path / "elsewhere", 2)
    assert len(weights(out)) == 6
    assert before.items() <= weights(out).items()
    with pytest.raises(InputError, match="odd number"):
        train(corpus, out, settings=small(), n_members=2)


NGRAMS = ["model.ngram_dim=4", "model.layout_dim=3", "pairs.epochs=0"]


def test_a_new_stage_two_over_an_old_stage_one(small_corpus, tmp_path):
    """To the byte what training from the start gives; here with n-grams and a cohort."""
    common = [*NGRAMS, "heads.epochs=2", "abstention.epochs=2"]
    changed = [*common, "calibration.cohort=7", "abstention.lr=0.002", "heads.lr=0.002"]
    figures = train(small_corpus, tmp_path / "a", settings=small(*common), n_members=1, jobs=1)
    assert figures["dml"]["auc"] > 0.6  # habits show in n-grams at once, after two short epochs
    stage_one = weights(tmp_path / "a")["member-01.stage1.safetensors"]
    train(small_corpus, tmp_path / "a", settings=small(*changed), n_members=1, jobs=1, work=tmp_path / "anew")
    train(small_corpus, tmp_path / "b", settings=small(*changed), n_members=1, jobs=1)
    # With the seconds that it took the first time: it was not repeated.
    before, anew = (
        [record for record in history(tmp_path / work) if record["stage"] == "contrastive"]
        for work in ("a.work", "anew")
    )
    assert before
    assert anew == before
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert weights(tmp_path / "b")["member-01.stage1.safetensors"] == stage_one
    assert names_in(tmp_path / "b" / "member-01.stage1.safetensors") == {"encoder", "metric", "ngrams", "layout"}
    fitted = {"dml", "bfs", "ual", "o2d2", "cohort", "part_scale"}
    assert names_in(tmp_path / "b" / "member-01.stage2.safetensors") == fitted
    one, other = (json.loads((tmp_path / name / "ensemble.json").read_text())["validation"] for name in "ab")
    assert one == other
    assert "cut to 2,000 characters" in (tmp_path / "b" / "MODEL_CARD.md").read_text()
    assert (tmp_path / "b" / "reliability.png").read_bytes().startswith(b"\x89PNG")
    # What stage two said of the validation pairs is what a verifier says of the texts.
    compare_with_verifier(tmp_path / "b", small_corpus)


def compare_with_verifier(folder, corpus) -> None:
    """The scores of the validation pairs that training left, against those of the ensemble that is loaded and reads
    the texts: rounded weights, a cohort in half precision and all."""
    texts = [json.loads(line)["text"] for line in corpus.read_text().splitlines()]
    pairs = json.loads((folder / "validation_pairs.json").read_text())["pairs"]
    stored = np.load(folder / "validation_scores.npz")
    verifier = Verifier.load(folder)
    assert verifier.config.cohort == len(np.unique(verifier.network.cohort.texts[0], axis=0)) == 7
    embedding = verifier.embed([texts[pair[side]] for side in (0, 1) for pair in pairs])
    pair = embedding.pair(slice(0, len(pairs)), slice(len(pairs), None))
    scores = verifier.network.score(pair)
    for name in ("dml", "bfs", "ual", "o2d2"):
        np.testing.assert_allclose(getattr(scores, name), stored[name], atol=1e-3, err_msg=name)  # half precision
    distance = sum(stored[name] for name in stored if name.startswith("distance_"))
    np.testing.assert_allclose(pair.distance, distance, rtol=2e-3)


# ---- several sources ----

SOURCES = ["data.source_share=0.5", "calibration.cohort=5", *NGRAMS]


def write_sources(path, authors=60) -> list[dict[str, str]]:
    """Authors of three sources, which end their sentences in ways of their own."""
    docs = generated_corpus.documents(authors, each=4, topics=8, sentences=10)
    for number, doc in enumerate(docs):
        doc["source"] = "abc"[number // 4 % 3]
        doc["text"] = doc["text"].replace(".", [".", " ;", " ..."][number // 4 % 3])
    generated_corpus.write(path, docs)
    return docs


def test_members_of_some_sources_each(tmp_path):
    """Dealt evenly, listed in the ensemble, and judged by what they know and what they do not."""
    write_sources(tmp_path / "documents.jsonl", authors=150)
    train(tmp_path / "documents.jsonl", tmp_path / "out", settings=small(*SOURCES), n_members=3, jobs=2)
    info = json.loads((tmp_path / "out" / "ensemble.json").read_text())
    known = [member["sources"] for member in info["members"]]
    assert [len(sources) for sources in known] == [2, 2, 2]
    assert sorted(name for sources in known for name in sources) == [*"aabbcc"]
    assert set(info["validation_by_source"]) == {*"abc"}
    assert all(row["pairs"] > 0 for row in info["validation_by_source"].values())
    verifier = Verifier.load(tmp_path / "out")
    assert verifier.config.cohort == 5
    index = verifier.network.ngrams.index
    assert not torch.equal(index[0], index[1]), "every member reads n-grams of its own"
    # One of them alone, or beside others, is the same.
    train(tmp_path / "documents.jsonl", tmp_path / "one", settings=small(*SOURCES), n_members=1, jobs=1)
    alone = weights(tmp_path / "one")
    assert len(alone) == 2
    assert alone.items() <= weights(tmp_path / "out").items()


def test_authors_who_write_for_several_sources(tmp_path):
    """As PAN's authors write essays and e-mails: a text of each author in each source."""
    docs = write_sources(tmp_path / "documents.jsonl")
    for number, doc in enumerate(docs):
        doc["source"] = "abc"[number % 3]
    generated_corpus.write(tmp_path / "documents.jsonl", docs)
    settings = small("calibration.cohort=1000", *NGRAMS)
    train(tmp_path / "documents.jsonl", tmp_path / "out", settings=settings, n_members=1, jobs=1)
    assert Verifier.load(tmp_path / "out").config.cohort == 12  # calibration authors: a fifth of sixty


def test_n_grams_alone(small_corpus, tmp_path):
    """Without an encoder a training is a matter of seconds, and what it leaves a matter of megabytes."""
    settings = small("model.encoder_dim=0", "model.ngram_dim=8", "model.layout_dim=5", "calibration.cohort=7")
    figures = train(small_corpus, tmp_path / "out", settings=settings, n_members=1, jobs=1)
    assert figures["ual"]["auc"] > 0.6
    assert {record["stage"] for record in history(tmp_path / "out.work")} == {"heads", "o2d2"}
    assert names_in(tmp_path / "out" / "member-01.stage1.safetensors") == {"ngrams", "layout"}
    compare_with_verifier(tmp_path / "out", small_corpus)


# ---- the paper's ----


# Of the preset "paper" only sizes and epochs are changed, and batches are of 10 pairs instead of 40, so that there are
# steps enough in two minutes of one core: rates, initial values, dropout, masks per pair and clipping are as published.
# The vocabulary shrinks with the rest: if it knew every word of training texts, nothing would be learnt of unknown
# ones, and texts on new topics are full of these.
SHRUNK = [
    "model.word_dim=30", "model.chars_per_token=8", "model.char_filters=8", "model.window_tokens=15",
    "model.window_hop=13", "model.window_hidden=24", "model.document_hidden=24", "model.encoder_dim=30",
    "model.bfs_dim=20", "data.words=100", "data.train_share=0.6", "pairs.max_windows=8", "pairs.epochs=6",
    "pairs.batch=10", "abstention.epochs=6",
]  # fmt: skip


def alike_beside_marks(out, corpus) -> tuple[np.ndarray, np.ndarray]:
    """Truth and share of common words of the validation pairs, the marks of authors left out."""
    words = [
        set(json.loads(line)["text"].split()) - set(generated_corpus.MARKS) for line in corpus.read_text().splitlines()
    ]
    found = json.loads((out / "validation_pairs.json").read_text())
    alike = [len(words[a] & words[b]) / len(words[a] | words[b]) for a, b in found["pairs"]]
    return np.array(found["same"]), np.array(alike)


def test_the_papers_recipe(tmp_path):
    """Pairs only, from the published start, the scores of stage one, O2D2 on all calibration authors: what authors
    never seen have in common on topics never seen is learnt."""
    generated_corpus.write(tmp_path / "documents.jsonl", generated_corpus.marked_documents(1500))
    (tmp_path / "notes.md").write_text("Made for a test.")
    settings = load_settings("paper", None, SHRUNK)
    out = tmp_path / "paper"
    figures = train(
        tmp_path / "documents.jsonl", out, settings=settings, n_members=1, jobs=1, notes=tmp_path / "notes.md"
    )  # fmt: skip
    records = history(tmp_path / "paper.work")
    assert [record["stage"] for record in records] == ["pairs"] * 6 + ["o2d2"] * 6
    for name in ("dml_loss", "bfs_loss", "ual_loss"):
        assert records[5][name] < 0.6 * records[0][name], name
    assert figures["ual"]["auc"] >= 0.95
    assert figures["ensemble_o2d2"]["auc"] >= 0.95
    # Not by topics: whoever compares the words beside the marks says the opposite of the truth.
    assert auc(*alike_beside_marks(out, tmp_path / "documents.jsonl")) < 0.1
    assert names_in(out / "member-01.stage1.safetensors") == {"encoder", "metric", "dml", "bfs", "ual"}
    assert names_in(out / "member-01.stage2.safetensors") == {"o2d2"}
    assert "Made for a test." in (out / "MODEL_CARD.md").read_text()
    assert not (tmp_path / "paper.work" / "member-01" / CHECKPOINT).exists()
    assert (tmp_path / "paper.work" / "member-01" / STAGE_TWO).exists()
    text = (out / "REPORT.md").read_text()
    assert "| SA_DF + DA_SF |" in text
    assert (out / "figure3.png").read_bytes().startswith(b"\x89PNG")
    before = {name: (out / name).read_bytes() for name in ("REPORT.md", "figure3.png", "figure4.png")}
    for name in before:
        (out / name).unlink()
    report(out)
    assert {name: (out / name).read_bytes() for name in before} == before


# ---- does it learn? ----

QUICK = [
    "data.train_share=0.5", "data.words=1000", "contrastive.epochs=8", "contrastive.steps=14", "contrastive.authors=48",
    "contrastive.max_windows=12", "contrastive.min_windows=4", "heads.epochs=5", "calibration.views=2",
    "calibration.draws=16", "abstention.epochs=20", "abstention.lr=3e-3", "abstention.lr_end=1e-3",
    "abstention.batch=30",
]  # fmt: skip


def write_corpus(folder, **options):
    path = folder / "documents.jsonl"
    docs = generated_corpus.documents(400, each=8, topics=24, sentences=30, strength=0.52, **options)
    generated_corpus.write(path, docs)
    return path


def test_habits_of_unseen_authors_on_unseen_topics_are_learnt(tmp_path):
    settings = load_settings("compact", None, QUICK)
    figures = train(write_corpus(tmp_path), tmp_path / "out", n_members=1, settings=settings)
    assert figures["ual"]["auc"] >= 0.90
    assert figures["o2d2"]["non_responses"] > 0
    assert figures["o2d2"]["c@1"] > figures["ual"]["c@1"] - 0.01  # what it abstains from was no loss
    probes = [record["topic_accuracy"] for record in history(tmp_path / "out.work") if "topic_accuracy" in record]
    assert len(probes) == settings.stage_one_epochs
    # By contrast the two classes are as large, and chance is a half; pairs measure it on what they drew.
    assert abs(probes[settings.contrastive.epochs - 1] - 0.5) <= 0.10, "topic is left in the document vectors"


def test_nothing_leaks_when_the_labels_are_shuffled(tmp_path):
    changes = ["contrastive.epochs=4", "abstention.epochs=1", "heads.epochs=2", "data.split=authors"]
    settings = load_settings("compact", None, [*QUICK, *changes, "data.train_share=0.2"])
    corpus = write_corpus(tmp_path, shuffled=True)
    train(corpus, tmp_path / "out", n_members=1, settings=settings)
    docs = [json.loads(line) for line in corpus.read_text().splitlines()]
    split = Prepared.load(tmp_path / "out.work" / "prepared", settings.model).split
    assert len(split) == len(docs)
    # Pairs across topics only: same-topic texts are alike whoever wrote them.
    rng = np.random.default_rng(0)
    same, different = [], []
    numbers = np.flatnonzero(split == VALIDATE)
    for i in numbers:
        for j in rng.choice(numbers, 40):
            if docs[i]["topic"] != docs[j]["topic"] and docs[i]["author"] != docs[j]["author"] and len(different) < 600:
                different.append((docs[i]["text"], docs[j]["text"]))
                break
        partners = [j for j in numbers if i < j < i + 8 and docs[i]["author"] == docs[j]["author"]]
        same += [(docs[i]["text"], docs[j]["text"]) for j in partners[:2] if docs[i]["topic"] != docs[j]["topic"]]
    same = same[:600]
    verdicts = list(Verifier.load(tmp_path / "out").predict(same + different))
    truth = np.arange(len(verdicts)) < len(same)
    assert min(len(same), len(different)) >= 500
    for name in ("ual", "bfs", "dml"):
        assert 0.45 <= auc(truth, np.array([verdict.score(name)[0] for verdict in verdicts])) <= 0.55, name
