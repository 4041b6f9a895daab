"""What a verifier remembers of a document, which is a text, or several by one author."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from .data.tokeniser import Tokens
from .network.embedding import Embedding
from .verdict import BOTH, IDENTICAL, TEXTS, Note


@dataclass(eq=False)
class Document:
    """A distinct text, or several by one author, and what becomes of it when its chunk has been computed."""

    key: bytes
    texts: tuple[str, ...]  # () once they were read
    left_out: frozenset[bytes] = frozenset()  # texts of the population that must not judge it
    embedding: Embedding | None = None  # D = 1
    notes: list[tuple[str, str, str]] = field(default_factory=list)  # (kind, which of several texts, words)
    content: bytes = b""  # a hash of what was read of it; of one token there is none
    undecidable: bool = False  # of such a text nothing can be said: it is not embedded


def document_key(texts: tuple[str, ...], left_out: frozenset[bytes]) -> bytes:
    """What a document is remembered by."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest() + b"".join(sorted(left_out))


def content_key(read: Tokens) -> bytes:
    """The same for texts that are the same once they are repaired and cut."""
    if len(read.ids) < 2:
        return b""
    digest = hashlib.blake2b("\0".join(read.types).encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(read.ids.tobytes())
    return digest.digest()


def texts_that_count(
    texts: list[Tokens], fault_of: Callable[[Tokens], tuple[str, str] | None]
) -> tuple[list[Tokens], list[tuple[str, str, str]]]:
    """Of several texts those that count, and notes on all. A short one adds to the others, one in another language
    would only blur them, and copies count once (`compare_texts` tells of them)."""
    if len(texts) == 1:
        return texts, [(kind, "", words) for kind, words in texts[0].notes.items()]
    notes = [(kind, f" {n}", words) for n, text in enumerate(texts, 1) for kind, words in text.notes.items()]
    faults = [fault_of(text) for text in texts]
    strange = [fault is not None and fault[0] != "too short" for fault in faults]
    if all(strange):
        return texts, notes
    for number, fault in enumerate(faults, 1):
        if fault and strange[number - 1]:
            notes.append((fault[0], f" {number}", f"left out, {fault[1]}"))
    distinct: dict[tuple[tuple[str, ...], bytes], Tokens] = {}
    for text, out in zip(texts, strange, strict=True):
        if not out:
            distinct.setdefault((tuple(text.types), text.ids.tobytes()), text)
    return list(distinct.values()), notes


def notes_on(pair: tuple[Document, Document], remarks: tuple[Note, ...]) -> tuple[Note, ...]:
    """On the pair, and on either text."""
    own = (
        Note(kind, f"known text{which}" if which else where, words)
        for document, where in zip(pair, TEXTS, strict=True)
        for kind, which, words in document.notes
    )
    told = any(note.kind == "identical" for note in remarks)
    if not told and pair[0].content and pair[0].content == pair[1].content:  # a page and its text, say
        others = (note for note in remarks if note.kind != "contained")
        remarks = (Note("identical", BOTH, IDENTICAL), *others)
    left_out = pair[0].left_out
    if not left_out:
        return (*remarks, *own)
    them = (
        "one of the population's texts is" if len(left_out) == 1 else f"{len(left_out)} of the population's texts are"
    )
    return (*remarks, *own, Note("population", BOTH, f"{them} left out of it for this comparison, being part of it"))
