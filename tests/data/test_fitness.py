"""What texts an ensemble turns away: with limits learnt from the English of tests/data/english_kinds.json."""

import json
import random
from pathlib import Path

import pytest

from pan21av.data.fitness import COMMON_WORDS, Limits, Shares
from pan21av.data.tokeniser import DEFAULT, Tokens, find_tokeniser
from pan21av.data.vocabulary import Vocabulary
from pan21av.training.limits import learn_limits

HERE = Path(__file__).parent
LANGUAGES = json.loads((HERE / "languages.json").read_text("utf-8"))
ENGLISH = json.loads((HERE / "english_kinds.json").read_text("utf-8"))
ROOT = HERE.parents[1]
TOKENISER = find_tokeniser(DEFAULT)


def text_of(sentences, seed, count=40):
    """On one line: lines that come again would be left out."""
    rng = random.Random(seed)
    return " ".join(rng.choice(sentences) for _ in range(count))


@pytest.fixture(scope="module")
def shipped():
    """The shipped ensemble's vocabulary and limits."""
    folder = ROOT / "models" / "default"
    limits = Limits.from_dict(json.loads((folder / "ensemble.json").read_text())["limits"])
    return Vocabulary.from_json((folder / "vocab.json").read_bytes()), limits


def test_shares_by_hand():
    vocabulary = Vocabulary(("the", "cat", *(f"w{n}" for n in range(COMMON_WORDS)), "rare"), tuple("thecarz"))
    tokens = Tokens.of(["The", "cat", "Ж", "rare", "zz", "!", "12", "the"])
    shares = Shares.of(tokens, vocabulary)
    assert shares.tokens == 8
    assert shares.words == 6 / 8  # without ! and 12
    assert shares.common == 3 / 6  # The, cat, the; "rare" is known, but beyond the commonest
    assert shares.unknown == 2 / 6  # Ж, zz
    letters = "The" + "cat" + "Ж" + "rare" + "zz" + "the"
    strange = [c for c in letters if c not in "thecarz"]
    assert shares.foreign == len(strange) / len(letters)


def test_each_limit_has_its_reason():
    limits = Limits(min_tokens=40, min_words=0.5, min_common=0.3, max_unknown=0.4, max_foreign=0.2)
    good = Shares(1000, 0.8, 0.5, 0.1, 0.0)
    assert limits.fault(good) is None
    changes = {
        "too short": Shares(39, 0.8, 0.5, 0.1, 0.0),
        "no words": Shares(1000, 0.4, 0.5, 0.1, 0.0),
        "language": Shares(1000, 0.8, 0.2, 0.1, 0.0),
    }
    for kind, shares in changes.items():
        assert limits.fault(shares)[0] == kind
    assert "unknown" in limits.fault(Shares(1000, 0.8, 0.5, 0.5, 0.0))[1]
    assert "script" in limits.fault(Shares(1000, 0.8, 0.5, 0.1, 0.4))[1]
    # Just beyond a limit, chance may have done it in a short text, but not in a long one.
    assert limits.fault(Shares(60, 0.8, 0.27, 0.1, 0.0)) is None
    assert limits.fault(Shares(5000, 0.8, 0.27, 0.1, 0.0))[0] == "language"


@pytest.mark.parametrize("language", LANGUAGES)
def test_other_languages_are_turned_away(shipped, language):
    vocabulary, limits = shipped
    for seed in range(20):
        tokens = TOKENISER.encode(text_of(LANGUAGES[language], seed), mend=True)
        fault = limits.fault(Shares.of(tokens, vocabulary))
        assert fault is not None
        assert fault[0] == "language", (language, fault)


def test_a_script_without_spaces_is_not_taken_for_no_words():
    """Of Japanese every other token is a mark: what it lacks are letters that training knew, not words."""
    limits = Limits(min_tokens=40, min_words=0.56, min_common=0.2, max_unknown=0.5, max_foreign=0.2)
    assert "script" in limits.fault(Shares(1000, 0.5, 0.0, 1.0, 0.95))[1]
    assert limits.fault(Shares(1000, 0.3, 0.4, 0.1, 0.0))[0] == "no words"


@pytest.mark.parametrize("kind", ENGLISH)
def test_odd_english_is_read(shipped, kind):
    vocabulary, limits = shipped
    for seed in range(20):
        tokens = TOKENISER.encode(text_of(ENGLISH[kind], seed, 60), mend=True)
        shares = Shares.of(tokens, vocabulary)
        assert shares.tokens >= limits.min_tokens, "the sample is too short to tell"
        assert limits.fault(shares) is None


def test_limits_follow_what_was_trained_on():
    """Learnt from German, they let German pass and turn English away."""
    texts = [text_of(LANGUAGES["German"], seed, 30) for seed in range(60)]
    counts: dict[str, int] = {}
    for text in texts:
        for token in TOKENISER.tokenise(text):
            counts[token] = counts.get(token, 0) + 1
    vocabulary = Vocabulary.build(counts.items(), words=60, chars=60)
    limits = learn_limits(Shares.of(TOKENISER.encode(text), vocabulary) for text in texts)
    german = TOKENISER.encode(text_of(LANGUAGES["German"], 99, 30))
    english = TOKENISER.encode(text_of(ENGLISH["letter"], 99, 30))
    assert limits.fault(Shares.of(german, vocabulary)) is None
    assert limits.fault(Shares.of(english, vocabulary))[0] == "language"


@pytest.mark.parametrize("values", [{}, {"min_tokens": 3}, {"min_tokens": "many"}])
def test_damaged_limits(values):
    with pytest.raises(ValueError, match="limits of a text must be numbers"):
        Limits.from_dict(values)
