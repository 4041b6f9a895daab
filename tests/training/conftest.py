"""A prepared corpus that the tests of training share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import generated_corpus
import pytest
from support import TINY_FULL, small

from pan21av.training.prepare import prepare
from pan21av.training.prepared import Prepared
from pan21av.training.settings import Settings

# The small network of support.py. Training finds out by itself how many n-grams it reads, how many kinds it knows and
# how large its cohort is.
MODEL = replace(TINY_FULL, ngram_features=0, layout_features=0, kinds=0, cohort=0)


def settings_for(*assignments: str) -> Settings:
    return small("data.min_tokens=50", "data.words=200", *assignments).updated({"model": MODEL.to_dict()})


@dataclass(frozen=True)
class Corpus:
    prepared: Prepared
    settings: Settings
    documents: list[dict[str, str]]  # as written, the one that is too short included
    file: Path
    vectors: Path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Corpus:
    """60 authors of two sources, some texts longer than a network reads, one too short to count."""
    folder = tmp_path_factory.mktemp("prepared")
    docs = generated_corpus.documents(60, each=4, topics=8, sentences=12)
    for number, document in enumerate(docs):
        document["source"] = "ab"[number // 4 % 2]
    docs.append({"author": "short", "topic": "topic0", "source": "a", "text": "Too short."})
    generated_corpus.write(folder / "documents.jsonl", docs)
    vectors = folder / "vectors.txt"
    vectors.write_text("2 7\nthe 1 2 3 4 5 6 7\nunheard 1 1 1 1 1 1 1\n")
    settings = settings_for()
    made = prepare([folder / "documents.jsonl"], folder / "out", settings, vectors=vectors, workers=1)
    return Corpus(made, settings, docs, folder / "documents.jsonl", vectors)
