"""The page of `explain` in a real browser, and as large as it gets."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape

import pytest
from support import HANGS, TINY, prose, write_random_ensemble

from pan21av.commands.attribute import attribute
from pan21av.commands.explain import explain

HOSTILE = """He said "it's <script>alert(1)</script> & 'that' <img src=x onerror=alert(2)> </div>".

A second paragraph, $title ${scale} {texts} %s -- and the end ... """
DISTANCES = {"edges": [0, 1, 2, 40], "same": [5, 3, 1], "different": [1, 3, 6]}

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")

HARNESS = """<!doctype html><body style="margin:0">
<iframe id=f src="%s" width=%d height=900 style="border:0"></iframe><script>
document.getElementById("f").onload = () => {
  const w = document.getElementById("f").contentWindow, d = w.document, report = {};
  const alpha = e => {
    const m = /[/,]\\s*([\\d.]+)\\)$/.exec(w.getComputedStyle(e).backgroundColor);
    return m ? +m[1] : 1;
  };
  const shaded = () => [...d.querySelectorAll(".text i")].filter(e => alpha(e) > 0.01).length;
  const slider = d.getElementById("share");
  report.total = d.querySelectorAll(".text i").length;
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
  const words = [...d.querySelectorAll("svg text")].map(e => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width);
  report.labels = words.length;
  report.small = words.filter(([, r]) => r.height < 11).map(([e]) => e.textContent);
  report.clipped = words.filter(([e, r]) => {
    const s = e.ownerSVGElement.getBoundingClientRect();
    return r.left < s.left - 1 || r.right > s.right + 1 || r.top < s.top - 1 || r.bottom > s.bottom + 1;
  }).map(([e]) => e.textContent);
  report.touching = [];
  for (const [a, r] of words) for (const [b, s] of words)
    if (a !== b && r.left < s.right + 4 && s.left < r.right + 4 && r.top < s.bottom - 3 && s.top < r.bottom - 3)
      report.touching.push(a.textContent + " / " + b.textContent);
  report.requests = w.performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  report.scripts = d.querySelectorAll("script").length;
  const word = d.querySelector(".text i");
  word.dispatchEvent(new w.MouseEvent("mouseover", {bubbles: true}));
  report.title = word.title;
  report.slope = w.getComputedStyle(word).fontStyle;
  report.focusable = [...d.querySelectorAll("input, [tabindex]")].length;
  document.title = "done"; document.body.textContent = JSON.stringify(report);
};</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    config = replace(TINY, max_windows=100)  # a text of some hundred words
    ensemble = write_random_ensemble(folder / "tiny", 5, config, distances=DISTANCES)
    explain(HOSTILE * 30, prose(1, 1000), folder / "page.html", names=("<b>a</b>.txt", 'b".txt'), models=ensemble)
    return folder / "page.html"


MATRIX = """<!doctype html><body style="margin:0">
<iframe id=f src="%s" width=%d height=900 style="border:0"></iframe><script>
document.getElementById("f").onload = () => {
  const w = document.getElementById("f").contentWindow, d = w.document, report = {};
  report.overflow = d.documentElement.scrollWidth - w.innerWidth;
  report.requests = w.performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  report.scripts = d.querySelectorAll("script, b.anna").length;
  const lines = e => { const r = d.createRange(); r.selectNodeContents(e); return r.getClientRects().length; };
  report.broken = [...d.querySelectorAll(".ranked td:nth-child(2)")].filter(e => lines(e) > 1).length;
  report.cells = d.querySelectorAll(".matrix tbody td").length;
  document.title = "done"; document.body.textContent = JSON.stringify(report);
};</script>"""


def in_browser(tmp_path, page, width, script=HARNESS):
    """What the harness found, and what the page wrote to the console."""
    harness = tmp_path / "harness.html"
    harness.write_text(script % (page.as_uri(), width))
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-web-security",
         "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
         f"--window-size={max(width, 500)},900", "--virtual-time-budget=20000", "--dump-dom",
         harness.as_uri()],
        capture_output=True, timeout=HANGS,
    )  # fmt: skip
    match = re.search(r"<body[^>]*>(\{.*\})</body>", done.stdout.decode())
    assert match, done.stderr.decode()[-2000:]
    console = [entry for entry in done.stderr.decode().splitlines() if "CONSOLE" in entry]
    return json.loads(unescape(match[1])), console


@needs_chromium
@pytest.mark.browser
@pytest.mark.parametrize("width", [375, 1440])
def test_in_a_browser(page, tmp_path, width):
    report, console = in_browser(tmp_path, page, width)
    assert console == []
    assert report["requests"] == []
    assert report["scripts"] == 1
    assert report["overflow"] <= 0
    assert report["overlaps"] == []
    assert report["labels"] == (8 if width == 375 else 12)  # without the quarters of either axis on a telephone
    assert report["small"] == report["clipped"] == report["touching"] == []
    shaded, total = report["shaded"], report["total"]
    assert total == 2 * 903
    assert shaded["0"] == 0
    assert shaded["100"] == total
    assert 0.15 * total < shaded["20"] < 0.25 * total
    assert 0.5 * total < shaded["60"] < 0.7 * total
    assert report["label"] == "100 %"
    assert report["focusable"] == 3  # slider and both texts
    assert re.fullmatch(r"[\d.]+ times an even share of the attention", report["title"])
    assert report["slope"] == "normal"  # words stand in <i>, which is short, but not in italics


@needs_chromium
@pytest.mark.browser
@pytest.mark.parametrize("width", [375, 1440])
def test_a_matrix_in_a_browser(tmp_path, width):
    """Twelve people: the tables scroll, the page does not, and no number is broken in two."""
    people = {f"somebody with a long name {n}": [prose(n), prose(20 + n)] for n in range(11)}
    people["<b class=anna>anna</b>"] = [prose(50)]
    questioned = {"a_text_with_a_long_name.txt": prose(60), "b.txt": prose(61)}
    ensemble = write_random_ensemble(tmp_path / "tiny", distances=DISTANCES)
    attribute(questioned, people, output=tmp_path / "page.html", models=ensemble)
    report, console = in_browser(tmp_path, tmp_path / "page.html", width, MATRIX)
    assert console == []
    assert report == {"overflow": report["overflow"], "requests": [], "scripts": 0, "broken": 0, "cells": 2 * 13}
    assert report["overflow"] <= 0


def test_two_long_texts(tmp_path, process):
    """With the shipped ensemble, 21,000 characters each: all of them are on the page."""
    for name, seed in (("a.txt", 1), ("b.txt", 2)):
        (tmp_path / name).write_text(prose(seed, 7000)[:21_000])
    done = process("explain", "a.txt", "b.txt", "-o", "page.html")
    assert done.returncode == 0, done.stderr.decode()
    read = re.search(r"Read: ([\d,]+) and ([\d,]+) tokens, of at most", (tmp_path / "page.html").read_text())
    assert min(int(count.replace(",", "")) for count in read.groups()) > 4000


def test_a_page_grows_no_faster_than_its_texts(tmp_path):
    sizes = []
    for words in (400, 800, 1600):
        explain(prose(1, words), prose(2, words), tmp_path / "page.html")
        sizes.append((tmp_path / "page.html").stat().st_size)
    assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]), rel=0.05)
