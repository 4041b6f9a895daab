"""What is not the author's own leaves a text, with a note; the rest stays as it was."""

import pytest

from pan21av.data.repair import repair

STORY = "It had rained since noon.\nNobody came to the door, and nobody was missed.\n\nShe lit the lamp at five."

GUTENBERG = f"""The Project Gutenberg EBook of A Small House, by Nobody In Particular

This eBook is for the use of anyone anywhere at no cost and with
almost no restrictions whatsoever.

Title: A Small House

Author: Nobody In Particular

Language: English

*** START OF THIS PROJECT GUTENBERG EBOOK A SMALL HOUSE ***

{STORY}

*** END OF THIS PROJECT GUTENBERG EBOOK A SMALL HOUSE ***

Most people start at our web site. You may copy it under the terms of the licence.
"""


def squeezed(text):
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boilerplate", GUTENBERG),
        ("boilerplate", GUTENBERG[: GUTENBERG.index("*** START")] + STORY),  # cut out of the middle of the file
        ("headers", f"From: a@b.example\nTo: c@d.example\nSubject: rain\n  and more rain\n\n{STORY}"),
        ("mark-up", "<html><head><title>x</title><style>p {}</style></head><body>"
         + "".join(f"<p>{line}</p>" for line in STORY.split("\n") if line) + "<script>alert(1)</script></body></html>"),
        ("tags", STORY.replace("\n", " <nl> ").replace(" the door", " <city> the door")),
    ],
)  # fmt: skip
def test_repairs(kind, text):
    mended, notes = repair(text)
    assert list(notes) == [kind]
    assert squeezed(mended) == squeezed(STORY)


def test_entities_of_a_page_are_read():
    assert squeezed(repair("<p>Fish &amp; chips</p><p>caf&eacute;</p><br>")[0]) == "Fish & chips café"


def test_a_letter_on_the_line_of_its_subject_stays():
    """Old blogs have whole letters so: a line of a header has at most 998 characters (RFC 5322)."""
    letter = " ".join(STORY.split() * 20)
    assert len(letter) > 998
    text = f"From: somebody\nSubject: rain {letter}"
    assert repair(text) == (text, {})
    mended, notes = repair(f"From: somebody\nTo: somebody else\nSubject: rain {letter}")
    assert (mended.strip(), list(notes)) == (f"Subject: rain {letter}", ["headers"])
    indented = f"From: somebody\nSubject: rain\n  {letter}"
    assert repair(indented)[0].strip() == letter


def test_page_headers_stay_once():
    header = "THE HISTORY OF A SMALL HOUSE BY THE SEA"
    pages = [f"{header}\nPage text number {n}, which is not the same as the others." for n in "abcd"]
    mended, notes = repair("\n".join(pages))
    assert list(notes) == ["repetition"]
    assert mended.count(header) == 1
    assert all(f"number {n}," in mended for n in "abcd")


@pytest.mark.parametrize(
    "text",
    [
        STORY,
        "If a < b and b > c, then nothing follows; 1 < 2.",
        "To: whom it may concern. I write to complain.",  # one line is no header
        "She wrote <b>bold</b> once.",  # two tags are no page
        "Row, row, row\nRow, row, row\nRow, row, row\nthe boat",  # short lines recur in songs
        "I read it at Project Gutenberg last year, and did not like it.",
        "",
    ],
)
def test_what_is_left_alone(text):
    assert repair(text) == (text, {})


HOSTILE = {
    "white space": " \n" * 200_000,
    "a header that never ends": "Project Gutenberg" + "\n \n" * 100_000 + "Titl",
    "stars": "***" * 100_000,
    "openings without a close": "<script>" * 40_000 + "<!--" * 40_000 + "</" * 40_000,
    "quotes in tags": "<p a='\">" * 40_000,
    "continued headers": "from: a\n " * 40_000,
    "tags that are none": "<" + "ab_" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_done_with(name):
    """It would take minutes if anything in it were quadratic."""
    text = HOSTILE[name]
    mended, _ = repair(text)
    assert len(mended) <= len(text)
