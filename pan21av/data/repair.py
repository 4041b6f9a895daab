"""What is not the author's own, taken out of a text before it is read: mark-up, headers, licences, repeated lines.

Every repair leaves a note, so that nobody wonders what was judged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

MIN_TAGS = 3  # of HTML in a text that is read as a page
MIN_HEADER_LINES = 2  # of an e-mail, one below the other
MIN_REPEATS = 3  # of a line that is a page's header or a separator rather than the author's words
MIN_REPEATED_LETTERS = 20  # shorter lines recur in verse, dialogue and lists of messages

# PAN22 and PAN23 have <nl> for a new line, <new> between messages, and <city>, <name>, ... for what was left out.
_PAN_BREAK = re.compile(r"<(?:nl|new)>")
_PAN_TAG = re.compile(r"<(?:addr\d*_[A-Z]{1,3}|[a-z]{2,12}(?:_[a-z]{2,12})*)>")
_HTML_TAG = re.compile(
    r"</?(?:html|head|body|title|p|div|span|br|hr|b|i|em|strong|u|a|img|ul|ol|li|table|tr|td|th|h[1-6]|blockquote|pre|code"
    r"|center|font|small|sup|sub|script|style|meta|link|section|article)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_BLOCK_TAGS = frozenset(
    ["p", "div", "br", "hr", "li", "tr", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre",
     "section", "article", "title"]
)  # fmt: skip
_SILENT_TAGS = frozenset(("script", "style", "head", "title"))

_GUTENBERG_START = re.compile(
    r"\A.{0,20000}?\*{3}\s*START OF (?:THE|THIS) PROJECT GUTENBERG[^\n]{0,300}\*{3}", re.DOTALL | re.IGNORECASE
)
_GUTENBERG_END = re.compile(
    r"\n[^\n]{0,80}(?:\*{3}\s*END OF (?:THE|THIS) PROJECT GUTENBERG|End of (?:the )?Project Gutenberg).*\Z",
    re.DOTALL | re.IGNORECASE,
)
# A header that was cut off before its START line: its first sentence, and the fields below it.
_GUTENBERG_HEADER = re.compile(
    r"\A\s*(?:The )?Project Gutenberg(?:'s|’s)?\b.*?(?:\s*\n[ \t]*(?:Title|Author|Language|Character set encoding|"
    r"Produced by|Release Date|Posting Date|Credits|Editor|Translator|Illustrator|Original publication)\b:?[^\n]*)+",
    re.DOTALL | re.IGNORECASE,
)
_MAIL_HEADER = re.compile(
    r"^(?:(?:from|to|cc|bcc|subject|date|sent|reply-to|message-id|in-reply-to|references|received|return-path|organization|"
    r"sender|newsgroups|path|lines|mime-version|content-[a-z-]+|x-[a-z-]+|user-agent|importance|priority):[^\n]*\n"
    r"(?:[ \t]+\S[^\n]*\n){0,4}){" + str(MIN_HEADER_LINES) + r",}",
    re.IGNORECASE | re.MULTILINE,
)


class _Page(HTMLParser):
    """The text of a page, with a break where the page has one."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in _SILENT_TAGS
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        self.silent = max(0, self.silent - (tag in _SILENT_TAGS))
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.parts.append(data)

    def _break(self, tag: str) -> None:
        if tag in _BLOCK_TAGS:
            self.parts.append("\n\n")


def _html(text: str) -> str:
    if len(_HTML_TAG.findall(text[:100_000])) < MIN_TAGS:
        return text
    page = _Page()
    page.feed(text)
    page.close()
    return "".join(page.parts)


def _pan_tags(text: str) -> str:
    if "<" not in text:
        return text
    text = _PAN_BREAK.sub("\n", text)
    return _PAN_TAG.sub(" ", text)


def _gutenberg(text: str) -> str:
    if "gutenberg" not in text[:20_000].lower() and "gutenberg" not in text[-40_000:].lower():
        return text
    opened = _GUTENBERG_START.sub("", text, count=1)
    if opened == text:
        opened = _GUTENBERG_HEADER.sub("", text, count=1)
    return _GUTENBERG_END.sub("", opened, count=1)


def _mail_headers(text: str) -> str:
    return _MAIL_HEADER.sub("\n", text)


def _repeated_lines(text: str) -> str:
    """The first of several equal lines stays."""
    counts = Counter(text.split("\n"))
    often = {
        line
        for line, count in counts.items()
        if count >= MIN_REPEATS and sum(map(str.isalpha, line)) >= MIN_REPEATED_LETTERS
    }
    if not often:
        return text
    seen: set[str] = set()
    kept = []
    for line in text.split("\n"):
        if line not in seen:
            kept.append(line)
        if line in often:
            seen.add(line)
    return "\n".join(kept)


# In this order: a page's text may hold the rest.
REPAIRS: dict[str, tuple[str, Callable[[str], str]]] = {
    "mark-up": ("read as a web page's text", _html),
    "tags": ("tags in place of names and line breaks left out", _pan_tags),
    "boilerplate": ("Project Gutenberg's header or licence left out", _gutenberg),
    "headers": ("e-mail headers left out", _mail_headers),
    "repetition": ("lines that come again and again left out", _repeated_lines),
}


def repair(text: str) -> tuple[str, dict[str, str]]:
    """The text as its author wrote it, as far as can be told, and what was taken out: {kind: words}."""
    notes = {}
    for kind, (words, mend) in REPAIRS.items():
        mended = mend(text)
        if mended != text:
            text, notes[kind] = mended, words
    return text, notes
