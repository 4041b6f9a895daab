"""Labels that a random ensemble can be calibrated on, and those that it cannot."""

import json

import numpy as np
import pytest
from support import prose, weights

from pan21av import Verifier, calibrate
from pan21av.errors import EnvironmentFault, InputError
from pan21av.network.checkpoint import load_ensemble
from pan21av.vote import NON_RESPONSE

PAIRS = {f"t{n}": (prose(n), prose(1000 + n)) for n in range(120)}


@pytest.fixture(scope="module")
def said(tiny_ensemble):
    return np.array([v.probability for v in Verifier.load(tiny_ensemble, device="cpu").predict(PAIRS.values())])


def write(folder, same, authors=True):
    folder.mkdir(exist_ok=True)
    (folder / "pairs.jsonl").write_text("\n".join(json.dumps({"id": i, "pair": p}) for i, p in PAIRS.items()))
    lines = []
    for n, (trial, label) in enumerate(zip(PAIRS, same, strict=True)):
        people = [f"a{n % 50}", f"a{n % 50}" if label else f"a{(n + 7) % 50}"]
        lines.append(json.dumps({"id": trial, "same": bool(label), **({"authors": people} if authors else {})}))
    (folder / "truth.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def ranked(said):
    """True of the upper half of the answers, wherever they lie, but for every tenth."""
    answered = said != NON_RESPONSE
    assert answered.sum() >= 80  # else this ensemble cannot be calibrated
    same = said > np.median(said[answered])
    same[::10] ^= True
    return same


def test_an_ensemble_of_ones_own(tiny_ensemble, tmp_path, command, said, ranked):
    folder = write(tmp_path / "in", ranked)
    before = weights(tiny_ensemble)
    done = command("calibrate", "-i", folder, "-t", folder, "-o", "mine", "--models", tiny_ensemble)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines()[-1] == "-> mine"
    mine = tmp_path / "mine"
    assert weights(mine) == before
    assert (mine / "member-01.stage1.safetensors").samefile(tiny_ensemble / "member-01.stage1.safetensors")
    entry = json.loads((mine / "ensemble.json").read_text())["calibration"]
    assert entry["after"]["cllr"] < entry["before"]["cllr"]
    assert (entry["pairs"], entry["from"]) == (120, "tiny")
    # The answers of the new one are those of the old, scaled and shifted; a non-response stays one.
    answers = [v.probability for v in Verifier.load(mine, device="cpu").predict(PAIRS.values())]
    logits = entry["scale"] * np.log(said / (1 - said)) + entry["shift"]
    np.testing.assert_allclose(answers, np.where(said == 0.5, 0.5, 1 / (1 + np.exp(-logits))), atol=1e-9)
    shown = command("info", "--models", mine).stdout.decode()
    assert f"calibrated  logits x {entry['scale']:.3f} {entry['shift']:+.3f}, on 120 pairs by 50 authors" in shown
    again = command("calibrate", "-i", folder, "-t", folder, "-o", "mine", "--models", tiny_ensemble)
    assert (again.returncode, "mine exists already" in again.stderr.decode()) == (2, True)
    twice = command("calibrate", "-i", folder, "-t", folder, "-o", "twice", "--models", mine)
    assert (twice.returncode, "was calibrated before" in twice.stderr.decode()) == (2, True)


def test_shuffled_labels(tiny_ensemble, tmp_path, command, ranked):
    folder = write(tmp_path / "in", np.random.default_rng(1).permutation(ranked))
    done = command("calibrate", "-i", folder, "-t", folder, "-o", "mine", "--models", tiny_ensemble)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines()[-1].startswith("nothing was written: ")
    assert not (tmp_path / "mine").exists()


@pytest.fixture(scope="module")
def spread(tiny_ensemble, tmp_path_factory, said):
    """The same ensemble, with answers as far apart as a trained one's: logits of mean 0 and deviation 2.5."""
    base = tmp_path_factory.mktemp("models") / "spread"
    base.mkdir()
    for path in tiny_ensemble.iterdir():
        (base / path.name).write_bytes(path.read_bytes())
    logits = np.log(said / (1 - said))
    scale = 2.5 / logits.std()
    manifest = json.loads((base / "ensemble.json").read_text())
    manifest["calibration"] = {"scale": scale, "shift": -scale * logits.mean()}
    (base / "ensemble.json").write_text(json.dumps(manifest))
    return base, scale * (logits - logits.mean())


@pytest.mark.parametrize(("scale", "shift"), [(1, 1.5), (1, -1.5), (2.5, 0), (0.4, 0)])
def test_populations_that_answers_do_not_fit(spread, tmp_path, scale, shift):
    """Labels are drawn so that logits should be (logit - shift) / scale: the fit goes there, and Cllr falls."""
    base, logits = spread
    right = 1 / (1 + np.exp(-(logits - shift) / scale))
    same = np.random.default_rng(3).random(len(right)) < right
    folder = write(tmp_path / "in", same)
    found = calibrate(str(folder), folder, tmp_path / "mine", models=base, device="cpu")
    assert found.verdict == ""
    said = [v.probability for v in Verifier.load(tmp_path / "mine", device="cpu").predict(PAIRS.values())]
    moved = np.log(np.array(said) / (1 - np.array(said)))

    def expected_cllr(z):
        """Over all ways to draw the labels."""
        cost = right @ np.logaddexp(0, -z) / right.sum(), (1 - right) @ np.logaddexp(0, z) / (1 - right).sum()
        return sum(cost) / (2 * np.log(2))

    even = np.log(right.sum() / (1 - right).sum())  # a ratio is a posterior at even odds, whatever the numbers
    least, before, after = (expected_cllr(z) for z in ((logits - shift) / scale - even, logits, moved))
    assert least < after < before - 0.4 * (before - least)


def test_a_card_tells_of_it(tiny_ensemble, tmp_path, ranked):
    base = tmp_path / "base"
    base.mkdir()
    for path in tiny_ensemble.iterdir():
        (base / path.name).write_bytes(path.read_bytes())
    (base / "MODEL_CARD.md").write_text("# Card\n")
    folder = write(tmp_path / "in", ranked)
    found = calibrate(str(folder), folder, tmp_path / "mine", models=base, device="cpu")
    assert found.verdict == ""
    card = (tmp_path / "mine" / "MODEL_CARD.md").read_text()
    assert card.startswith("# Card\n\n## Calibrated on a population\n")
    assert f"| Cllr | {found.before['cllr']} | {found.after['cllr']} |" in card
    assert (base / "MODEL_CARD.md").read_text() == "# Card\n"
    assert load_ensemble(tmp_path / "mine").calibration == found.calibration
    assert load_ensemble(base).calibration is None


def test_input_that_cannot_be_used(tiny_ensemble, tmp_path, ranked):
    def refused(folder, message):
        with pytest.raises(InputError, match=message):
            calibrate(str(folder), folder, tmp_path / "mine", models=tiny_ensemble, device="cpu")
        assert not (tmp_path / "mine").exists()

    refused(
        write(tmp_path / "nameless", ranked, authors=False), r"does not name the authors of 120 trials \(t0, t1, t2\)"
    )
    folder = write(tmp_path / "in", ranked)
    lines = (folder / "truth.jsonl").read_text().splitlines()
    (folder / "truth.jsonl").write_text("\n".join(lines[2:]))
    refused(folder, r"the truth lacks 2 trials of .*pairs.jsonl: t0, t1")
    (folder / "truth.jsonl").write_text("\n".join(lines))
    (folder / "pairs.jsonl").write_text((folder / "pairs.jsonl").read_text() + "\nnonsense")
    refused(folder, r"1 line not JSON \(line 121\); expected")
    (folder / "pairs.jsonl").write_text("")
    refused(folder, "holds no trials")
    (folder / "pairs.jsonl").write_text(json.dumps({"id": "t0", "pair": ["one text", "another"]}))
    refused(folder, "too few to calibrate on: ")
    refused(tmp_path / "nowhere", "nowhere does not exist")


def test_a_calibration_that_makes_no_sense(tiny_ensemble, tmp_path):
    for path in tiny_ensemble.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((tmp_path / "ensemble.json").read_text())
    for entry, message in (
        ({"shift": 1, "scale": -1}, "a scale of -1"),
        ({"shift": 1}, "lacks 'scale'"),
        ([1], "cannot be"),
    ):
        (tmp_path / "ensemble.json").write_text(json.dumps({**manifest, "calibration": entry}))
        with pytest.raises(EnvironmentFault, match=message):
            load_ensemble(tmp_path)
