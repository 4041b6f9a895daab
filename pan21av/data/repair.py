"""What is not the author's own, taken out of a text before it is read: mark-up, headers, licences, repeated lines.

Every repair leaves a note, so that nobody wonders what was judged. Each takes time in proportion to the text, whatever
that is: texts come from anywhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html import unescape

MIN_TAGS = 3  # of HTML in a text that is read as a page
MIN_HEADER_LINES = 2  # of an e-mail, one below the other
MAX_CONTINUED = 4  # lines that go on with one of them
MAX_HEADER_LINE = 998  # characters, RFC 5322: what is longer has the letter itself in it
MIN_REPEATS = 3  # of a line that is a page's header or a separator rather than the author's words
MIN_REPEATED_LETTERS = 20  # shorter lines recur in verse, dialogue and lists of messages
GUTENBERG_HEAD, GUTENBERG_LINES, GUTENBERG_TAIL = 20_000, 80, 40_000  # characters and lines where its text may be

# PAN22 and PAN23 have <nl> for a new line, <new> between messages, and <city>, <name>, ... for what was left out.
_PAN_BREAK = re.compile(r"<(?:nl|new)>")
_PAN_TAG = re.compile(r"<(?:addr\d{0,3}_[A-Z]{1,3}|[a-z]{2,12}(?:_[a-z]{2,12}){0,3})>")

_SILENT = re.compile(r"<(script|style|head|title)\b[^<>]{0,500}>", re.IGNORECASE)
_BLOCK = re.compile(
    r"</?(?:p|div|br|hr|li|tr|table|ul|ol|h[1-6]|blockquote|pre|section|article)\b[^<>]{0,500}>", re.IGNORECASE
)
_HTML_TAG = re.compile(
    r"</?(?:html|head|body|title|p|div|span|br|hr|b|i|em|strong|u|a|img|ul|ol|li|table|tr|td|th|h[1-6]|blockquote|pre"
    r"|code|center|font|small|sup|sub|script|style|meta|link|section|article)\b[^<>]{0,500}>|<!(?:--|doctype)[^<>]{0,500}>",
    re.IGNORECASE,
)
# In a file that is a page: what may stand within a word, and all the rest.
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|bdi|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|small|span|strong|sub|sup|tt|u|wbr)\b[^<>]*>",
    re.IGNORECASE,
)
_ANY_TAG = re.compile(r"<[a-z/!?][^<>]*>", re.IGNORECASE)

_GUTENBERG_START = re.compile(r"\*{3}\s{0,5}START OF (?:THE|THIS) PROJECT GUTENBERG[^\n]{0,300}", re.IGNORECASE)
_GUTENBERG_END = re.compile(
    r"\n[^\n]{0,80}(?:\*{3}\s{0,5}END OF (?:THE|THIS) PROJECT GUTENBERG|End of (?:the )?Project Gutenberg)",
    re.IGNORECASE,
)
# Lines of a header that was cut off before its START line.
_GUTENBERG_FIELD = re.compile(
    r"\s{0,20}(?:Title|Author|Language|Character set encoding|Produced by|Release Date|Posting Date|Credits|Editor|"
    r"Translator|Illustrator|Original publication)\b",
    re.IGNORECASE,
)
_MAIL_FIELD = re.compile(
    r"(?:from|to|cc|bcc|subject|date|sent|reply-to|message-id|in-reply-to|references|received|return-path|organization|"
    r"sender|newsgroups|path|lines|mime-version|content-[a-z-]{1,30}|x-[a-z-]{1,30}|user-agent|importance|priority):",
    re.IGNORECASE,
)


def _html(text: str) -> str:
    """The text of a page, with a break where the page has one."""
    if len(_HTML_TAG.findall(text[:100_000])) < MIN_TAGS:
        return text
    return unescape(_HTML_TAG.sub("", _BLOCK.sub("\n\n", _without_silent(text))))


def page_text(page: str) -> str:
    """The text of what is known to be a web page, whatever its tags are called."""
    page = _BLOCK.sub("\n\n", _without_silent(_without_comments(page)))
    return unescape(_ANY_TAG.sub(" ", _INLINE_TAG.sub("", page)))


def _without_comments(page: str) -> str:
    kept, at = [], 0
    while (start := page.find("<!--", at)) >= 0 and (end := page.find("-->", start + 4)) >= 0:
        kept.append(page[at:start])
        at = end + len("-->")
    return "".join([*kept, page[at:]])


def _without_silent(text: str) -> str:
    """Without scripts, styles and what stands in the head."""
    kept, at = [], 0
    lowered, unclosed = text.lower(), set()
    while found := _SILENT.search(text, at):
        name = found[1].lower()
        end = -1 if name in unclosed else lowered.find(f"</{name}", found.end())
        if end < 0:
            unclosed.add(name)
            kept.append(text[at : found.end()])
            at = found.end()
            continue
        kept.append(text[at : found.start()])
        at = end
    return "".join([*kept, text[at:]])


def _pan_tags(text: str) -> str:
    if "<" not in text:
        return text
    return _PAN_TAG.sub(" ", _PAN_BREAK.sub("\n", text))


def _gutenberg(text: str) -> str:
    head, tail = text[:GUTENBERG_HEAD], text[-GUTENBERG_TAIL:]
    if "gutenberg" not in head.lower() and "gutenberg" not in tail.lower():
        return text
    if end := _GUTENBERG_END.search(tail):
        text = text[: len(text) - len(tail) + end.start()]
    if start := _GUTENBERG_START.search(head):
        return text[start.end() :]
    if "project gutenberg" not in head.lstrip()[:40].lower():
        return text
    lines = text.split("\n", GUTENBERG_LINES)
    fields = [number for number, line in enumerate(lines[:GUTENBERG_LINES]) if _GUTENBERG_FIELD.match(line)]
    return "\n".join(lines[fields[-1] + 1 :]) if fields else text


def _mail_headers(text: str) -> str:
    kept: list[str] = []
    block: list[str] = []  # lines of a header, as far as it goes
    fields = continued = 0
    for line in [*text.split("\n"), ""]:
        short = len(line) <= MAX_HEADER_LINE
        if short and _MAIL_FIELD.match(line):
            block.append(line)
            fields, continued = fields + 1, 0
            continue
        if short and block and line[:1] in (" ", "\t") and line.strip() and continued < MAX_CONTINUED:
            block.append(line)
            continued += 1
            continue
        if fields < MIN_HEADER_LINES:
            kept += block
        block, fields = [], 0
        kept.append(line)
    return "\n".join(kept[:-1])


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
