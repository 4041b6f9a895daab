import json

import pytest
from support import write_random_ensemble

from pan21av import __version__
from pan21av.commands.info import info
from pan21av.network.checkpoint import FORMAT

TRAINED = {
    "training": {
        "finished": "2026-11-18",
        "splits": {"training": {"documents": 12345, "authors": 678}, "validation": {"documents": 9, "authors": 3}},
    },
    "validation": {
        "ensemble_o2d2": {"auc": 0.98765, "overall": 0.9, "ece": 0.0123, "non_responses": 0.056, "F1": 0.1},
        "dml": {"auc": 0.5},
    },
    "distances": {"edges": [0, 1, 2], "same": [600, 30], "different": [400, 300]},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "mine", count=5, **TRAINED)
    (folder / "MODEL_CARD.md").write_text("# mine")
    return folder


def test_about_ten_lines(trained, command):
    done = command("info", "--models", trained, "--device", "cpu")
    assert done.returncode == 0, done.stderr.decode()
    lines = dict(line.split(maxsplit=1) for line in done.stdout.decode().splitlines())
    computing = lines.pop("computing")
    assert lines == {
        "pan21av": __version__,
        "ensemble": f"mine, in {trained}",
        "members": "5",
        "tokeniser": "pan21av-1",
        "trained": "2026-11-18",
        "on": "12,345 documents by 678 authors",
        "validation": "AUC 0.988, overall 0.900, calibration error 1.2 %, non-responses 5.6 %, of 1,330 pairs",
        "card": str(trained / "MODEL_CARD.md"),
    }
    assert computing.startswith("cpu, ")


def test_json(trained, command):
    done = command("info", "--models", trained, "--json")
    facts = json.loads(done.stdout)
    assert facts == json.loads(json.dumps(info(models=trained)))
    assert (facts["members"], facts["documents"], facts["authors"]) == (5, 12345, 678)
    assert facts["validation"] == {"auc": 0.98765, "overall": 0.9, "ece": 0.0123, "non_responses": 0.056}


def test_an_ensemble_that_says_little_of_itself(tiny_ensemble, command):
    """Imported weights know nothing of their training."""
    done = command("info", "--models", tiny_ensemble)
    names = [line.split()[0] for line in done.stdout.decode().splitlines()]
    assert names == ["pan21av", "ensemble", "members", "tokeniser", "computing"]


def test_no_ensemble(tmp_path, command):
    done = command("info", "--models", tmp_path / "nowhere")
    assert done.returncode == 3
    assert b"nowhere/ensemble.json" in done.stderr


@pytest.mark.parametrize("verb", ["info", "predict"])
@pytest.mark.parametrize(
    "manifest", [{"format": FORMAT}, {"format": FORMAT, "members": None, "tokeniser": "pan21av-1"}]
)
def test_a_manifest_that_lacks_something(tmp_path, command, verb, manifest):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "ensemble.json").write_text(json.dumps(manifest))
    (tmp_path / "pairs.jsonl").write_text('{"id": "a", "pair": ["one", "two"]}')
    rest = ("-i", "pairs.jsonl", "-o", "out") if verb == "predict" else ()
    done = command(verb, *rest, "--models", "broken")
    assert done.returncode == 3
    assert b"broken" in done.stderr
