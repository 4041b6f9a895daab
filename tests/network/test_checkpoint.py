"""Ensembles on disk: what is loaded is what was saved, and every fault has a name."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as format_safetensors
from support import (
    FITTED,
    TINY,
    TINY_FULL,
    TINY_LIGHT,
    random_network,
    tiny_pool,
    tiny_vocabulary,
    weights,
    write_random_ensemble,
)

from pan21av.data.tokeniser import DEFAULT
from pan21av.data.vocabulary import Vocabulary
from pan21av.errors import EnvironmentFault
from pan21av.network import checkpoint
from pan21av.network.checkpoint import find_ensemble, load_ensemble, member_files, save_ensemble
from pan21av.verifier import Verifier


def edit_manifest(folder: Path, change) -> None:
    path = folder / "ensemble.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


@pytest.fixture
def copy(tiny_ensemble, tmp_path):
    return Path(shutil.copytree(tiny_ensemble, tmp_path / "copy"))


def one_state(config=TINY) -> dict[str, torch.Tensor]:
    return {name: tensor[0] for name, tensor in random_network(1, config).state_dict().items()}


def save_member(folder: Path, files: dict[str, bytes], config=TINY, vocabulary: Vocabulary | None = None) -> Path:
    vocabulary = vocabulary or tiny_vocabulary()
    save_ensemble(folder, config=config, tokeniser=DEFAULT, vocabulary=vocabulary, members=[files])
    return folder


# ---- what is written and read ----


@pytest.mark.parametrize("config", [TINY, TINY_FULL, TINY_LIGHT], ids=["plain", "full", "light"])
def test_round_trip(tmp_path, config):
    loaded = load_ensemble(write_random_ensemble(tmp_path / "one", config=config))
    found, expected = loaded.network.state_dict(), random_network(3, config).state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
        assert tensor.dtype is found[name].dtype, name
    assert loaded.network.config == config
    assert loaded.vocabulary == tiny_vocabulary()
    assert loaded.tokeniser.name == DEFAULT
    assert (loaded.name, loaded.path) == ("one", tmp_path / "one")


def test_half_precision_moves_answers_little(tiny_ensemble, tmp_path):
    full = Verifier.load(tiny_ensemble)
    half = Verifier.load(write_random_ensemble(tmp_path / "half", half=True))
    moved = []
    for n in range(20):
        pair = (f"the cat was {'not ' * n}here, but that is a story for you. " * 9, "it is what it is! " * (3 + n))
        one, other = half.verify(*pair).score("ual"), full.verify(*pair).score("ual")
        assert one == pytest.approx(other, abs=1e-3)
        moved.append(abs(one - other).max())
    assert max(moved) > 0, "nothing was rounded"


def test_each_file_holds_what_its_stage_made(tmp_path):
    """So a stage one can be reused under another stage two: nothing of the old one is left in its file."""
    folder = write_random_ensemble(tmp_path / "one", count=1, config=TINY_FULL, half=True)
    stage1, stage2 = (
        parse_safetensors((folder / f"member-01.stage{n}.safetensors").read_bytes()) for n in (1, 2)
    )  # fmt: skip
    assert {name.partition(".")[0] for name in stage1} == {"encoder", "metric", "ngrams", "layout"}
    kinds = {"ngrams.kinds.weight", "ngrams.kinds.centres"}
    assert {name.partition(".")[0] for name in stage2.keys() - kinds} == {
        "dml", "bfs", "ual", "o2d2", "cohort", "part_scale",
    }  # fmt: skip
    assert kinds <= stage2.keys()
    assert stage1.keys() | stage2.keys() == one_state(TINY_FULL).keys()
    halved = {name for name, tensor in (stage1 | stage2).items() if tensor.dtype is torch.float16}
    large = {"ngrams.weight", "layout.weight", "ngrams.kinds.weight", "cohort.texts"}
    of_bfs = {"bfs.projection.weight", "bfs.between", "bfs.within"}
    assert halved == {n for n in stage1 if n.startswith("encoder.")} | large | of_bfs
    assert {name for name, tensor in stage1.items() if not tensor.is_floating_point()} == {
        "ngrams.index",
        "layout.index",
    }


def test_scores_that_stage_one_trained_stay_in_its_file(tmp_path):
    stage1, stage2 = (parse_safetensors(data) for data in member_files(one_state(), ("o2d2.",)).values())
    assert {name.partition(".")[0] for name in stage2} == {"o2d2"}
    assert {"dml", "bfs", "ual"} <= {name.partition(".")[0] for name in stage1}


def test_saving_replaces_whole_folders(tmp_path):
    folder = write_random_ensemble(tmp_path / "one", count=5)
    write_random_ensemble(folder, count=3)
    assert len(list(folder.glob("member-*"))) == 6
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


def test_saving_over_what_a_killed_run_left(tmp_path):
    """Killed between its last two steps, it leaves the folder that it was replacing."""
    folder = write_random_ensemble(tmp_path / "one", count=1)
    shutil.copytree(folder, tmp_path / ".one.old")
    write_random_ensemble(folder, count=3)
    assert len(weights(folder)) == 6
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


def test_saving_fails_whole(tmp_path, monkeypatch):
    """A disk that fills up on the way leaves the ensemble that was there."""
    folder = write_random_ensemble(tmp_path / "one", count=1)
    before = weights(folder)
    written = []

    def full_disk(path, data):
        written.append(path)
        if len(written) > 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(EnvironmentFault, match="No space left on device"):
        write_random_ensemble(folder, count=3)
    monkeypatch.undo()
    assert weights(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


# ---- faults ----


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i.update(format=99), "has format 99; this version reads format 6"),
        (lambda i: i.pop("format"), "has format None"),
        (lambda i: i.update(tokeniser="other"), "unknown tokeniser 'other'"),
        (lambda i: i["members"].pop(), "odd number of members"),
        (lambda i: i.update(members=[]), "no members"),
        (lambda i: i.update(members=i["members"] * 334), "more than 999"),
        (lambda i: i.update(format=5), "has format 5; this version reads format 6"),
        (lambda i: i["model"].update(encoder_dim=8), "size mismatch"),
        (lambda i: i["model"].update(encoder_dim=10**9), "encoder_dim"),
        (lambda i: i["model"].update(encoder_dim=0), "encoder_dim and model.ngram_dim must not both be 0"),
        (lambda i: i["model"].update(lev_dim=9), "unknown model settings: lev_dim"),
        (lambda i: i["model"].update(mystery=1), "unknown model settings: mystery"),
        (lambda i: i["model"].update(cohort=5), r"Missing key\(s\) in state_dict: .*cohort\.texts"),
        (lambda i: i.pop("vocabulary"), "lacks 'vocabulary'"),
        (lambda i: i["vocabulary"].update(sha256="0" * 64), "vocab.json is damaged"),
        (lambda i: i["members"][1]["stage2"].update(sha256="0" * 64), "member-02.stage2.safetensors is damaged"),
        (lambda i: i["members"][2].pop("stage1"), "lacks 'stage1'"),
        (lambda i: i["members"][0]["stage1"].update(file="../../x"), "not a plain file name"),
        (lambda i: i["members"][0]["stage1"].update(file="nowhere"), "No such file"),
    ],
)
def test_faults_are_named(copy, change, message):
    edit_manifest(copy, change)
    with pytest.raises(EnvironmentFault, match=message):
        load_ensemble(copy)


def test_an_ensemble_of_the_first_format_says_what_to_do(copy, command):
    """One line, not a list of all tensors that have other names now."""
    edit_manifest(copy, lambda i: i.update(format=1, recipe=i.pop("tokeniser")))
    done = command("info", "--models", copy)
    assert done.returncode == EnvironmentFault.exit_code
    (line,) = done.stderr.decode().splitlines()
    assert str(copy) in line
    assert re.search("format 1.*: train it again with this version, or use it with the one that wrote it", line)


@pytest.mark.parametrize("data", [b"", b"{", b"[1, 2]", b'{"format": "3"}'])
def test_a_manifest_that_is_none(copy, data):
    (copy / "ensemble.json").write_bytes(data)
    with pytest.raises(EnvironmentFault, match=r"ensemble\.json (is damaged|has format)"):
        load_ensemble(copy)


def test_damaged_weights(copy):
    path = copy / "member-01.stage1.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(EnvironmentFault, match="SHA-256"):
        load_ensemble(copy)


def test_a_tensor_in_both_files_is_refused(tmp_path):
    """Whichever came last would count, and nobody would know."""
    files = member_files(one_state(), FITTED, half=False)
    scores = parse_safetensors(files["stage2"])
    files["stage1"] = format_safetensors(parse_safetensors(files["stage1"]) | {"bfs.mean": 2 * scores["bfs.mean"]})
    with pytest.raises(EnvironmentFault, match=r"stage2\.safetensors: bfs\.mean is in the other file"):
        load_ensemble(save_member(tmp_path / "both", files))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("metric.bias"), r"Missing key\(s\) in state_dict: .*metric\.bias"),
        (lambda state: state.update(extra=torch.zeros(1)), r"Unexpected key\(s\) in state_dict: .*extra"),
        (lambda state: state["metric.bias"].fill_(torch.nan), r"metric\.bias holds values that are not finite"),
        (lambda state: state["dml.log_gamma"].fill_(torch.inf), r"dml\.log_gamma holds values that are not finite"),
        # Finite, and yet no probabilities come of it.
        (lambda state: state["bfs.within"].fill_(100.0), r"cannot be used: .*p_bfs of member 1|cholesky"),
    ],
)
def test_members_that_cannot_be_used(tmp_path, change, message):
    state = one_state()
    change(state)
    folder = save_member(tmp_path / "odd", member_files(state, FITTED, half=False))
    with pytest.raises(EnvironmentFault, match=message):
        load_ensemble(folder)


@pytest.mark.parametrize("number", [-1, len(tiny_pool()), 2**31 - 1])
@pytest.mark.parametrize("config", [TINY_FULL, TINY_LIGHT], ids=["full", "light"])
def test_ngrams_that_the_vocabulary_does_not_know(tmp_path, config, number):
    """Numbers outside the pool: found before the work, not within it."""
    state = one_state(config)
    state["ngrams.index"][3] = number
    folder = save_member(tmp_path / "odd", member_files(state, FITTED, half=False), config)
    with pytest.raises(EnvironmentFault, match=r"n-?gram"):
        load_ensemble(folder)


def test_the_last_ngram_of_the_pool(tmp_path):
    state = one_state(TINY_FULL)
    state["ngrams.index"][3] = len(tiny_pool()) - 1
    folder = save_member(tmp_path / "fine", member_files(state, FITTED, half=False), TINY_FULL)
    assert Verifier.load(folder, threads=1).verify("the of and", "of the to").scores is not None


def test_ngrams_without_a_pool(tmp_path):
    bare = Vocabulary(tiny_vocabulary().words, tiny_vocabulary().chars)
    files = member_files(one_state(TINY_FULL), FITTED, half=False)
    with pytest.raises(EnvironmentFault, match=r"n-?gram"):
        load_ensemble(save_member(tmp_path / "odd", files, TINY_FULL, bare))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("encoder.window.recurrent", torch.int32),
        ("encoder.cnn", torch.bool),
        ("encoder.window.input", torch.complex64),
        ("part_scale", torch.int64),
        ("ngrams.index", torch.float32),
    ],
)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_numbers_of_another_kind(tmp_path, name, kind):
    """They are refused, or read as those that belong there."""
    state = one_state(TINY_FULL)
    state[name] = state[name].to(kind)
    folder = save_member(tmp_path / "odd", member_files(state, FITTED, half=False), TINY_FULL)
    expected = {name: tensor.dtype for name, tensor in random_network(1, TINY_FULL).state_dict().items()}
    try:
        loaded = load_ensemble(folder)
    except EnvironmentFault:
        return
    assert {name: tensor.dtype for name, tensor in loaded.network.state_dict().items()} == expected


# ---- where they are ----


def test_where_ensembles_are_found(tiny_ensemble, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_ensemble(tiny_ensemble) == tiny_ensemble
    monkeypatch.setattr(checkpoint, "NAMED", tiny_ensemble.parent)
    assert find_ensemble("tiny") == tiny_ensemble
    monkeypatch.setenv("PAN21AV_MODELS", str(tiny_ensemble))
    assert find_ensemble() == tiny_ensemble
    assert find_ensemble("tiny") == tiny_ensemble
    shutil.copytree(tiny_ensemble, tmp_path / "several" / "default")
    monkeypatch.setenv("PAN21AV_MODELS", str(tmp_path / "several"))
    assert find_ensemble() == tmp_path / "several" / "default"
    monkeypatch.setenv("PAN21AV_MODELS", "missing")
    with pytest.raises(EnvironmentFault, match=r"looked for[\s\S]*models\d*/missing/ensemble.json"):
        find_ensemble()
