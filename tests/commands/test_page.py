"""What stands on the page. How it looks and behaves, a browser tells: tests/system/test_browser.py."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from support import TINY, TINY_FULL, TINY_LIGHT, prose, tiny_vocabulary, write_random_ensemble

from pan21av.commands.page import render
from pan21av.commands.reading import READABLE, TYPED, Habit
from pan21av.commands.topic import masked_verdict
from pan21av.data.masking import Masking
from pan21av.data.tokeniser import DEFAULT, SPACES, encode_all
from pan21av.verdict import CAUTION, Note, Verdict, verdicts
from pan21av.verifier import Verifier

HOSTILE = """He said "it's <script>alert(1)</script> & 'that' <img src=x onerror=alert(2)> </div>".

A second paragraph, $title ${scale} {texts} %s -- and the end ... """
ASKED = Verdict(0.25, 0, 0, 5, np.full((4, 5), 0.25), 1.5)
DISTANCES = {"edges": [0, 1, 2, 40], "same": [5, 3, 1], "different": [1, 3, 6]}


class Page(HTMLParser):
    """The text of a page without scripts and styles; its tags with their attributes; what scripts and styles hold."""

    def __init__(self, content):
        super().__init__()
        self.words, self.tags, self.code, self.hidden = [], [], [], 0
        self.feed(content)
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data):
        (self.code if self.hidden else self.words).append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def ranks(self, name):
        """Of all words, in order."""
        found = (re.search(rf"--{name}:([\d.]+)", attrs.get("style", "")) for _, attrs in self.tags)
        return [float(match[1]) for match in found if match]


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    config = replace(TINY, max_windows=100)  # a text of some hundred words
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "tiny", 5, config, distances=DISTANCES)
    return Verifier.load(folder, device="cpu", threads=1)


@pytest.fixture(scope="module")
def page(verifier):
    texts = (HOSTILE * 30, prose(1, 1000))
    return render(verifier, verifier.verify(*texts), texts, ("<b>a</b>.txt", 'b".txt'))


@pytest.fixture
def page_of(verifier):
    """The page of a verdict, whatever the texts are."""
    return lambda verdict: Page(render(verifier, verdict, ("one", "two"), ("a", "b")))


@pytest.mark.parametrize("tokeniser", [DEFAULT, SPACES])
def test_texts_are_data(tmp_path, tokeniser):
    """Whether the marks of mark-up are tokens, or whole tags."""
    verifier = Verifier.load(write_random_ensemble(tmp_path / "tiny", tokeniser=tokeniser), threads=1)
    texts = (HOSTILE * 3, prose(1))
    seen = Page(render(verifier, verifier.verify(*texts), texts, ("<u>a</u>.txt", 'b".txt')))
    assert len(seen.all("script")) == 1  # our own
    assert not seen.all("u")
    assert not seen.all("img")
    assert "<script>alert(1)</script>" in seen.text.replace(" ", "")
    assert "$title ${scale} {texts} %s" in seen.text
    assert seen.text.count("<u>a</u>.txt") == 3  # in the title and above both lists
    assert 'b".txt' in seen.text


def test_it_needs_no_network(page):
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:)", page)
    assert not re.search(r"url\(|@import|fetch\(", page)
    policy = next(
        attrs["content"] for attrs in Page(page).all("meta") if "content" in attrs and "default" in attrs["content"]
    )
    assert policy.startswith("default-src 'none';")


@pytest.mark.parametrize("name", ["w", "v"])
def test_the_slider_shades_the_share_that_it_shows(page, name):
    """The style shades words whose rank is above 1 - share; a browser computes with what is written there."""
    seen = Page(page)
    tags = {tag for tag, attrs in seen.tags if "--w:" in attrs.get("style", "")}
    (styled,) = re.findall(r"\.text (\w+) \{[^}]*--w", "".join(seen.code))
    assert tags == {styled}
    ranks = np.array(seen.ranks(name))
    assert len(ranks) == 2 * 903
    assert (ranks > 1 - 1).all()
    assert not (ranks > 1 - 0).any()
    if name == "w":  # words of one window share the rank of their passage: steps there are coarse
        for share in (0.2, 0.6):
            assert (ranks > 1 - share).mean() == pytest.approx(share, abs=0.02)


def test_members_are_dots(page_of):
    """Hollow ones abstain; the others stand for what they say, at their place from 20 to 580."""
    scores = np.zeros((4, 5, 1))
    scores[2, :, 0] = [0.9, 0.8, 0.2, 0.6, 0.5]
    scores[3, :, 0] = [0.1, 0.6, 0.1, 0.2, 0.3]
    (verdict,) = verdicts(scores, np.array([1.0]), [()])
    seen = page_of(verdict)
    dots = {(dot["class"], dot["fill"] == "none", float(dot["cx"])) for dot in seen.all("circle")}
    assert dots == {
        ("different", False, 20 + 560 * 0.2),
        ("different", False, 20 + 560 * 0.5),
        ("same", False, 20 + 560 * 0.6),
        ("same", True, 20 + 560 * 0.8),
        ("same", False, 20 + 560 * 0.9),
    }
    assert "2 for one author, 2 for two, 1 abstain" in seen.text


def test_the_kind_of_text(page_of):
    verdict = Verdict(0.25, 0, 0, 5, np.full((4, 5), 0.25), 1.5)
    assert "kind of text" not in page_of(verdict).text
    known = page_of(replace(verdict, familiar=3))
    assert "3 of 5 members take it for a kind of text that they know." in known.text


def test_scores_are_means(page_of):
    scores = np.array([[0.1, 0.2, 0.3, 0.4, 0.5], [0.9] * 5, [0.25] * 5, [0.125] * 5])
    seen = page_of(Verdict(0.25, 0, 0, 5, scores, 1.5))
    assert re.findall(r"p(DML|BFS|UAL|O2D2)(\d\.\d+)", seen.text) == [
        ("DML", "0.300"), ("BFS", "0.900"), ("UAL", "0.250"), ("O2D2", "0.125"),
    ]  # fmt: skip


def test_what_becomes_of_the_mean(tmp_path):
    """An ensemble that recalibrates does not answer with the mean of what its members say."""
    for scale, true in ((1.0, False), (1.3, True)):
        folder = write_random_ensemble(tmp_path / f"{scale}", calibration={"shift": 0.0, "scale": scale})
        verifier = Verifier.load(folder, threads=1)
        seen = Page(render(verifier, replace(ASKED, scores=np.full((4, 3), 0.25)), ("one", "two"), ("a", "b"))).text
        assert ("the mean of the full ones, made as sure as such answers have proved right." in seen) is true
        assert ("the mean of the full ones." in seen) is not true


def test_nothing_uncertain_is_certain(page_of):
    seen = page_of(Verdict(0.9999, 0, 5, 0, np.full((4, 5), 0.9999), 1.5))
    assert "wrote both is > 0.999; that two did, < 0.001." in seen.text
    assert "1.000" not in seen.text
    assert "0.000" not in seen.text


def test_distances_by_hand(page_of):
    """At 1.5, those of the first two bins are closer: 8 of 9, and 4 of 10."""
    seen = page_of(Verdict(0.25, 0, 0, 5, np.full((4, 5), 0.25), 1.5))
    assert "89 % of the pairs by one author and 40 % of those by two are closer than this one" in seen.text
    assert len(seen.all("rect")) == 6


def test_caution_and_notes(page_of):
    notes = (Note("cut", "first text", "only <i>its</i> beginning"), Note("identical", "both texts", "the same"))
    seen = page_of(Verdict(0.25, 0, 0, 5, np.full((4, 5), 0.25), 1.5, notes))
    assert CAUTION in seen.text
    assert "first text: only <i>its</i> beginning" in seen.text
    assert "both texts: the same" in seen.text
    assert "The probability that one person wrote both is 0.250; that two did, 0.750." in seen.text


def test_nobody_was_asked(page_of):
    """Then there is nothing to show but the texts: two words have no habits, and no attention led anywhere."""
    seen = page_of(Verdict.unusable(5, [Note("too short", "first text", "too short: 1 token")]))
    for absent in ("The members", "Four scores", "How far apart", "Habits", "attention", "attended"):
        assert absent not in seen.text
    assert not seen.all("input")
    assert "Cannot tell" in seen.text
    assert "the texts do not allow a decision" in seen.text
    assert "first text: too short: 1 token" in seen.text
    assert "No member was asked." in seen.text
    assert not seen.all("circle")


# ---- habits, and ensembles without encoder ----


@pytest.fixture
def page_with(verifier, monkeypatch):
    """The page of a pair with these habits of words and of typing."""

    def with_habits(of_words, typed):
        found = {READABLE: of_words, TYPED: typed}
        monkeypatch.setattr("pan21av.commands.page.habits", lambda _, __, views=READABLE: found[views])
        return Page(render(verifier, ASKED, ("one", "two"), ("a", "b")))

    return with_habits


def test_habits_are_data(page_with):
    """Words of a text may be mark-up, and so may its signs."""
    of_words = [Habit("<u>the</u>", 12.34, 0.0, 5.06)], [Habit("…ing & of", 1.0, 2.0, 3.0)]
    typed = [Habit("␣<u>(word)", 7.0, 8.0, 9.0)], [Habit("&␣", 4.0, 5.0, 6.0)]
    seen = page_with(of_words, typed)
    assert not seen.all("u")
    habits, typing = seen.text.split("Habits")[1].split("Typing")
    common, apart = habits.split("Different")
    assert re.search(r"In common.*<u>the</u>\s*12\.3\s*0\.0\s*5\.1", common)
    assert re.search(r"…ing & of\s*1\.0\s*2\.0\s*3\.0", apart)
    common, apart = typing.split("Different")
    assert re.search(r"In common.*␣<u>\(word\)\s*7\.0\s*8\.0\s*9\.0", common)
    assert re.search(r"&␣\s*4\.0\s*5\.0\s*6\.0", apart)


def test_habits_that_are_not_worth_showing(page_with):
    """Two lists of words, and two of typing where the ensemble reads how a text is typed."""
    for typed, lists in ((([], []), 4), (None, 2)):
        seen = page_with(([], []), typed)
        assert seen.text.count("Nothing worth showing.") == lists
        assert ("Typing" in seen.text) == (typed is not None)


def test_no_habits_where_nobody_reads_ngrams(page):
    assert "Habits" not in Page(page).text
    assert "Typing" not in Page(page).text


@pytest.fixture(scope="module")
def light_page(tmp_path_factory):
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "light", config=TINY_LIGHT)
    verifier = Verifier.load(folder, device="cpu", threads=1)
    texts = (HOSTILE, prose(1))
    return Page(render(verifier, verifier.verify(*texts), texts, ("<u>a</u>.txt", 'b".txt')))


def test_a_page_without_encoder(light_page):
    """Both texts and their habits, and no word that was attended to."""
    assert not light_page.all("i")
    assert not light_page.ranks("w")
    assert "Most attended words" not in light_page.text
    assert "Habits" in light_page.text
    assert "Typing" in light_page.text
    # Texts are data here, too.
    assert len(light_page.all("script")) <= 1
    assert not light_page.all("u")
    assert not light_page.all("img")
    assert "<script>alert(1)</script>" in light_page.text.replace(" ", "")
    assert "$title ${scale} {texts} %s" in light_page.text
    assert prose(1).removesuffix(".") in light_page.text


def test_a_page_without_encoder_offers_no_attention(light_page):
    assert not light_page.all("input")
    assert "attention" not in light_page.text.lower()


def test_the_ratio_and_what_it_compares(tmp_path):
    ensemble = write_random_ensemble(tmp_path / "tiny", distances=DISTANCES)
    verifier = Verifier.load(ensemble, threads=1)
    verdict = Verdict(0.75, 0, 3, 0, np.full((4, 3), 0.25), 1.0, bounds=verifier.ratio_bounds)
    seen = Page(render(verifier, verdict, (prose(1), prose(2)), ("a", "b"), prior=0.1)).text
    assert "log10 LR +0.48" in seen
    assert "3.0 times as probable if the person who wrote the known text" in seen
    assert "no ratio beyond 1/9 and 10" in seen
    assert "With a prior probability of 0.1 that of one author becomes 0.250." in seen


def test_with_content_words_exchanged(tmp_path, monkeypatch):
    """Texts that differ in content words alone have the same score then."""
    monkeypatch.setattr("pan21av.data.masking.KEPT_WORDS", 1)  # the vocabulary is small
    ensemble = write_random_ensemble(tmp_path / "tiny", config=TINY_LIGHT)
    verifier = Verifier.load(ensemble, threads=1)
    frame = "the {} of the {} , and to a {} in the {} . "
    topics = (["boat", "fish", "that", "with"], ["cork", "bowl", "with", "that"])  # no ending, so of one class
    one, other = ((frame * 9).format(*words * 9) for words in topics)
    found, same = masked_verdict(verifier, (one, prose(1))), masked_verdict(verifier, (other, prose(1)))
    np.testing.assert_array_equal(found.verdict.scores, same.verdict.scores)
    verdict = verifier.verify(one, prose(1))
    assert not np.array_equal(verdict.scores, verifier.verify(other, prose(1)).scores)
    seen = Page(render(verifier, verdict, (one, prose(1)), ("a", "b"))).text
    assert f"Content words exchanged{found.verdict.probability:.3f}" in seen
    assert f"({found.share:.0%} of the tokens)" in seen
    assert "exchanged" not in Page(render(verifier, Verdict.unusable(3), ("a", "b"), ("a", "b"))).text


@pytest.mark.parametrize("config", [TINY_FULL, TINY_LIGHT], ids=["full", "light"])
def test_with_content_words_exchanged_a_text_is_typed_as_it_was(tmp_path, config):
    """Where nothing is exchanged, nothing else changes, however the texts are typed."""
    verifier = Verifier.load(write_random_ensemble(tmp_path / "tiny", config=config), threads=1)
    typed, plain = "“It  was\n\nthe, of…” " * 9, '"It was the , of ..." ' * 9
    one, other = encode_all([typed, plain])
    assert one.words == other.words
    assert Masking(tiny_vocabulary()).mask(one.words, 0) == (one.words, 0)  # it keeps all words that it knows so well
    found = masked_verdict(verifier, (typed, prose(1)))
    assert found.share == 0
    np.testing.assert_array_equal(found.verdict.scores, verifier.verify(typed, prose(1)).scores)
    assert not np.array_equal(found.verdict.scores, masked_verdict(verifier, (plain, prose(1))).verdict.scores)
