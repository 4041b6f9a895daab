"""The page: its numbers in process, its behaviour in a real browser."""

import json
import re
import shutil
import subprocess
import time
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, WORDS, random_members, tiny_vocabulary, write_random_ensemble
from test_predict import read_answers, write_pairs

from pan21av.checkpoint import member_files, save_ensemble
from pan21av.config import ModelConfig
from pan21av.explain import explain, readings, render
from pan21av.predict import predict
from pan21av.text import RECIPE, tokenise
from pan21av.verifier import Verifier

HOSTILE = """He said "it's <script>alert(1)</script> & 'that' <img src=x onerror=alert(2)> </div>".

A second paragraph, $title ${scale} {texts} %s -- and the end ... """
DISTANCES = {"edges": [0, 1, 2, 40], "same": [5, 3, 1], "different": [1, 3, 6]}


class Visible(HTMLParser):
    """The text of a page, without scripts and styles; and the tags it has."""

    def __init__(self, page):
        super().__init__()
        self.words, self.tags, self.hidden = [], [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def words(seed, count=400):
    return " ".join(np.random.default_rng(seed).choice(WORDS, count))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "tiny", count=5, distances=DISTANCES)


@pytest.fixture(scope="module")
def page(ensemble, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    explain(HOSTILE * 30, words(1), path, names=("<b>a</b>.txt", 'b".txt'), models=ensemble)
    return path


def test_the_probability_is_that_of_predict(ensemble, tmp_path, command):
    pair = (words(1), words(2))
    write_pairs(tmp_path / "pairs.jsonl", {"t": pair})
    predict(str(tmp_path), tmp_path / "out", models=ensemble)
    done = command("explain", "-i", tmp_path, "--id", "t", "-o", tmp_path / "deep" / "page.html", "--models", ensemble)
    assert done.returncode == 0, done.stderr.decode()
    value = read_answers(tmp_path / "out")["t"]
    assert Verifier.load(ensemble).verify(*pair).probability == value
    assert f"{value:.3f}" in (tmp_path / "deep" / "page.html").read_text()
    assert f"{value:.3f}" in done.stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "pairs.jsonl", "--id", "nobody"], "holds no trial 'nobody'"),
        (["-i", "pairs.jsonl", "--id", "empty"], "lacks two usable texts"),
        (["-i", "pairs.jsonl"], "give two text files"),
        ([], "give two text files"),
    ],
)
def test_wrong_calls(ensemble, tmp_path, command, arguments, message):
    write_pairs(tmp_path / "pairs.jsonl", {"t": ("a", "b"), "empty": ("", "b")})
    done = command("explain", *arguments, "-o", "page.html", "--models", ensemble)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert not (tmp_path / "page.html").exists()


def test_texts_are_data(page):
    content = page.read_text("utf-8")
    seen = Visible(content)
    assert seen.tags.count("script") == 1  # our own
    assert "img" not in seen.tags
    assert "< script > alert ( 1 )" in seen.text or "<script>alert(1)</script>" in seen.text
    assert "$title ${scale} {texts} %s" in seen.text
    assert "<b>a</b>.txt" in seen.text
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:)", content)


def test_attention_adds_up(ensemble):
    """A share of all attention: each member's weights sum to one over a document, whatever the overlaps."""
    verifier = Verifier.load(ensemble)
    found, _ = readings(verifier, [words(3, 150), HOSTILE])
    for reading, text in zip(found, [words(3, 150), HOSTILE], strict=True):
        assert reading.tokens == tokenise(text, verifier.config.max_tokens)
        assert reading.word.sum() == pytest.approx(1, abs=1e-5)
        assert [piece for piece, number in reading.pieces if number >= 0] == reading.tokens
        assert [number for _, number in reading.pieces if number >= 0] == list(range(len(reading.tokens)))


def test_paragraphs_are_kept(ensemble):
    verifier = Verifier.load(ensemble)
    found, _ = readings(verifier, ["one two\n\nthree. four\n \nfive", "x"])
    text = "".join(piece for piece, _ in found[0].pieces)
    assert text.split("\n\n")[:3] == ["one two", "three. four", "five"]


def test_habits_of_a_model_with_style(tmp_path):
    config = ModelConfig(**{**TINY.to_dict(), "style_dim": 4, "style_words": 10, "style_chars": 5})
    members = random_members(3, config)
    states = [{name: tensor[m] for name, tensor in members.state_dict().items()} for m in range(3)]
    save_ensemble(
        tmp_path / "style", config=config, recipe=RECIPE, vocabulary=tiny_vocabulary(),
        members=[member_files(state, half=False) for state in states],
    )  # fmt: skip
    verifier = Verifier.load(tmp_path / "style")
    texts = ("the the the of it", "the of of of it")
    seen = Visible(render(verifier, verifier.verify(*texts), texts, ("a", "b"))).text
    assert "Habits" in seen
    assert re.search(r"the600\.0200\.0", seen)  # 3 of 5 words, 1 of 5
    assert re.search(r"of200\.0600\.0", seen)


# ---- in a browser ------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")

HARNESS = """<!doctype html><body style="margin:0">
<iframe id=f src="%s" width=%d height=900 style="border:0"></iframe><script>
document.getElementById("f").onload = () => {
  const w = document.getElementById("f").contentWindow, d = w.document, report = {};
  const alpha = e => {
    const m = /[/,]\\s*([\\d.]+)\\)$/.exec(w.getComputedStyle(e).backgroundColor);
    return m ? +m[1] : 1;
  };
  const shaded = () => [...d.querySelectorAll(".text span")].filter(e => alpha(e) > 0.01).length;
  const slider = d.getElementById("share");
  report.total = d.querySelectorAll(".text span").length;
  report.shaded = {};
  for (const value of [0, 20, 60, 100]) {
    slider.value = value; slider.dispatchEvent(new w.Event("input"));
    report.shaded[value] = shaded();
  }
  report.label = d.getElementById("shown").textContent;
  report.overflow = d.documentElement.scrollWidth - w.innerWidth;
  const parts = [...d.querySelectorAll("header > *, main > *, footer, .card, section")];
  const boxes = parts.map(e => [e, e.getBoundingClientRect()]);
  report.overlaps = [];
  for (const [a, r] of boxes) for (const [b, s] of boxes)
    if (a !== b && !a.contains(b) && !b.contains(a) && r.width && s.width &&
        Math.min(r.right, s.right) - Math.max(r.left, s.left) > 1 &&
        Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top) > 1)
      report.overlaps.push(a.tagName + " / " + b.tagName + ": " + a.textContent.slice(0, 40));
  report.requests = w.performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  report.scripts = d.querySelectorAll("script").length;
  report.focusable = [...d.querySelectorAll("input, [tabindex]")].length;
  document.title = "done"; document.body.textContent = JSON.stringify(report);
};</script>"""


def in_browser(tmp_path, page, width):
    """What the harness found, and what the page wrote to the console."""
    harness = tmp_path / "harness.html"
    harness.write_text(HARNESS % (page.as_uri(), width))
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-web-security",
         "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
         f"--window-size={max(width, 500)},900", "--virtual-time-budget=20000", "--dump-dom",
         harness.as_uri()],
        capture_output=True, timeout=120,
    )  # fmt: skip
    match = re.search(r"<body[^>]*>(\{.*\})</body>", done.stdout.decode())
    assert match, done.stderr.decode()[-2000:]
    console = [entry for entry in done.stderr.decode().splitlines() if "CONSOLE" in entry]
    return json.loads(unescape(match[1])), console


@browser
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1440])
def test_in_a_browser(page, tmp_path, width):
    report, console = in_browser(tmp_path, page, width)
    assert console == []
    assert report["requests"] == []
    assert report["scripts"] == 1
    assert report["overflow"] <= 0
    assert report["overlaps"] == []
    shaded, total = report["shaded"], report["total"]
    assert total > 300
    assert shaded["0"] == 0
    assert shaded["100"] == total
    assert 0.15 * total < shaded["20"] < 0.25 * total
    assert 0.5 * total < shaded["60"] < 0.7 * total
    assert report["label"] == "100 %"
    assert report["focusable"] == 3  # slider and both texts


@pytest.mark.slow
def test_two_long_texts_take_seconds(tmp_path, process):
    """With the shipped ensemble and 21,000 characters each, start-up included."""
    for name, seed in (("a.txt", 1), ("b.txt", 2)):
        (tmp_path / name).write_text(words(seed, 6000)[:21_000])
    began = time.perf_counter()
    done = process("explain", "a.txt", "b.txt", "-o", "page.html")
    assert done.returncode == 0, done.stderr.decode()
    assert time.perf_counter() - began < 10
    assert Path(tmp_path / "page.html").stat().st_size > 100_000
