import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import TINY, random_members, tiny_vocabulary, write_random_ensemble

from pan21av import checkpoint
from pan21av.checkpoint import find_ensemble, load_ensemble, member_files, save_ensemble
from pan21av.errors import EnvironmentFault
from pan21av.text import RECIPE
from pan21av.verifier import Verifier


def edit_manifest(folder: Path, change) -> None:
    path = folder / "ensemble.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


@pytest.fixture
def copy(tiny_ensemble, tmp_path):
    return Path(shutil.copytree(tiny_ensemble, tmp_path / "copy"))


def test_round_trip(tiny_ensemble):
    loaded = load_ensemble(tiny_ensemble)
    for name, tensor in random_members(3).state_dict().items():
        assert torch.equal(tensor, loaded.members.state_dict()[name]), name
    assert loaded.vocabulary == tiny_vocabulary()
    assert loaded.recipe == RECIPE


def test_half_precision_moves_answers_little(tiny_ensemble, tmp_path):
    full = Verifier.load(tiny_ensemble)
    half = Verifier.load(write_random_ensemble(tmp_path / "half", half=True))
    for n in range(20):
        pair = (f"the cat was {'not ' * n}here, but that is a story for you. " * 9, "it is what it is! " * (3 + n))
        assert half.verify(*pair).p_ual == pytest.approx(full.verify(*pair).p_ual, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i.update(format=99), "format 99"),
        (lambda i: i.update(recipe="other"), "unknown text recipe 'other'"),
        (lambda i: i["members"].pop(), "odd number of members"),
        (lambda i: i.update(members=[]), "no members"),
        (lambda i: i["model"].update(lev_dim=8), "size mismatch"),
        (lambda i: i["model"].update(lev_dim=10**9), "lev_dim"),
        (lambda i: i["model"].update(mystery=1), "unknown model settings: mystery"),
        (lambda i: i.pop("vocabulary"), "lacks 'vocabulary'"),
        (lambda i: i["vocabulary"].update(sha256="0" * 64), "vocab.json is damaged"),
        (lambda i: i["members"][1]["o2d2"].update(sha256="0" * 64), "member-02.o2d2.safetensors is damaged"),
        (lambda i: i["members"][0]["stage1"].update(file="../../x"), "not a plain file name"),
        (lambda i: i["members"][0]["stage1"].update(file="nowhere"), "No such file"),
    ],
)
def test_faults_are_named(copy, change, message):
    edit_manifest(copy, change)
    with pytest.raises(EnvironmentFault, match=message):
        load_ensemble(copy)


def test_damaged_weights(copy):
    path = copy / "member-01.stage1.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(EnvironmentFault, match="SHA-256"):
        load_ensemble(copy)


def test_weights_that_are_not_finite(tmp_path):
    state = {name: tensor[0] for name, tensor in random_members(1).state_dict().items()}
    state["metric.bias"] = torch.full_like(state["metric.bias"], torch.nan)
    save_ensemble(
        tmp_path / "nan", config=TINY, recipe=RECIPE, vocabulary=tiny_vocabulary(),
        members=[member_files(state, half=False)],
    )  # fmt: skip
    with pytest.raises(EnvironmentFault, match=r"metric\.bias holds values that are not finite"):
        load_ensemble(tmp_path / "nan")


def test_where_ensembles_are_found(tiny_ensemble, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_ensemble(tiny_ensemble) == tiny_ensemble
    monkeypatch.setattr(checkpoint, "search_path", lambda: [tmp_path / "nothing", tiny_ensemble.parent])
    assert find_ensemble("tiny") == tiny_ensemble
    monkeypatch.setenv("PAN21AV_MODELS", str(tiny_ensemble))
    assert find_ensemble() == tiny_ensemble
    monkeypatch.setenv("PAN21AV_MODELS", "missing")
    with pytest.raises(EnvironmentFault, match=r"looked for[\s\S]*nothing/missing/ensemble.json"):
        find_ensemble()


def test_saving_replaces_whole_folders(tmp_path):
    folder = write_random_ensemble(tmp_path / "one", count=5)
    write_random_ensemble(folder, count=3)
    assert len(list(folder.glob("member-*"))) == 6
    assert [p.name for p in tmp_path.iterdir()] == ["one"]
