"""Pairs in PAN's format, as many as you like: to try preparation and training at PAN20's size.

    python benchmarks/generate.py FOLDER --pairs 50000 [--authors 400] [--topics 120] [--characters 21000] [--seed 1]

writes FOLDER/pairs.jsonl and FOLDER/truth.jsonl. The language is invented, with English function words. An author keeps
to habits whatever the topic: how often each function word, opening and mark comes, how long sentences are. Every topic
has nouns and verbs of its own choice of one lexicon, and every document names of its own, so that token types go on
growing as they do in real text. A pair depends on the seed and its number alone, so a larger set begins with a smaller
one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

CONSONANTS, VOWELS = list("bdfgklmnprstvz"), list("aeiou")
FUNCTION_WORDS = [
    "the", "of", "and", "to", "a", "in", "that", "it", "is", "was", "I", "for", "on", "you", "he", "be", "with", "as",
    "by", "at", "have", "are", "this", "not", "but", "had", "his", "they", "from", "she", "or", "which", "we", "an",
    "there", "her", "were", "one", "do", "been", "all", "their", "has", "would", "will", "what", "if", "can", "when",
    "so", "my", "no", "out", "up", "who", "me", "more", "some", "could", "them", "into", "him", "than", "then", "its",
    "only", "over", "these", "two", "other", "our", "first", "may", "like", "after", "most", "also", "made", "did",
    "many", "yet", "just", "where", "through", "back", "much", "before", "must", "about", "well", "down", "should",
    "because", "each", "those", "still", "such", "here", "even", "how", "too",
]  # fmt: skip
OPENINGS = [
    "Then", "Well,", "Still,", "Perhaps", "Meanwhile", "Somehow", "Now", "Honestly,", "Indeed,", "Maybe", "Once", "But",
    "And", "So", "Later", "Today", "Nobody", "Somebody", "Everyone", "I", "We", "They", "He", "She", "It",
]  # fmt: skip
MARKS = [", ", ", ", "; ", ": ", " -- ", " - ", "... ", " (", ") "]
ENDS = [". ", ". ", "! ", "? ", "... ", '." ', "!! ", ".\n\n"]
TOPICS_OF_AUTHOR = 8
SPREAD = 0.8  # standard deviation of the logarithms of an author's rates: how much habits differ
LEXICON = 40_000  # words that topics take theirs from
NOUNS, VERBS = 300, 100  # of a topic
NAMES = 10  # of a document
SAME_AUTHOR, SAME_TOPIC = 0.5, 0.5  # share of the pairs; of those by two authors, within one topic


def _stream(seed: int, what: str, number: int = 0) -> np.random.Generator:
    kinds = ("author", "topic", "pair", "lexicon")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(kinds.index(what), number)))


def _words(rng: np.random.Generator, count: int) -> list[str]:
    """Invented, of two to four syllables."""
    syllables = np.char.add(rng.choice(CONSONANTS, (count, 4)), rng.choice(VOWELS, (count, 4)))
    return ["".join(row[:n]) for row, n in zip(syllables.tolist(), rng.integers(2, 5, count).tolist(), strict=True)]


def _rates(rng: np.random.Generator, count: int) -> np.ndarray:
    """Of an author: Zipf's law, and what is peculiar to the author."""
    rates = np.exp(SPREAD * rng.standard_normal(count)) / (np.arange(count) + 2)
    return np.asarray(rates / rates.sum())


class Author:
    def __init__(self, seed: int, number: int, topics: int) -> None:
        rng = _stream(seed, "author", number)
        self.name = f"author-{number}"
        self.topics = rng.permutation(topics)[:TOPICS_OF_AUTHOR]
        self.words, self.openings = _rates(rng, len(FUNCTION_WORDS)), _rates(rng, len(OPENINGS))
        self.marks, self.ends = _rates(rng, len(MARKS)), _rates(rng, len(ENDS))
        self.sentence = rng.uniform(8, 25)  # words, on average
        self.mark_share = rng.uniform(0.03, 0.15)
        self.content_share = rng.uniform(0.35, 0.5)

    def write(self, content: np.ndarray, characters: int, rng: np.random.Generator) -> str:
        """A text about so long; `content` are the nouns and verbs of its topic."""
        count = characters // 5 + 20  # words; no text has fewer characters a word
        own = np.array([name.capitalize() for name in _words(rng, NAMES)])
        words = np.array(FUNCTION_WORDS)[rng.choice(len(FUNCTION_WORDS), count, p=self.words)].astype(object)
        about, named = rng.random(count) < self.content_share, rng.random(count) < 0.04
        words[about] = content[(len(content) * rng.random(int(about.sum())) ** 2).astype(int)]
        words[named] = rng.choice(own, int(named.sum()))
        gaps = np.full(count, " ", dtype=object)
        marked = rng.random(count) < self.mark_share
        gaps[marked] = np.array(MARKS)[rng.choice(len(MARKS), int(marked.sum()), p=self.marks)]
        ended = rng.random(count) < 1 / self.sentence
        gaps[ended] = np.array(ENDS)[rng.choice(len(ENDS), int(ended.sum()), p=self.ends)]
        first = np.flatnonzero(ended[:-1]) + 1
        words[first] = np.array(OPENINGS)[rng.choice(len(OPENINGS), len(first), p=self.openings)]
        return "".join((words + gaps).tolist())[:characters]


def lexicon(seed: int) -> np.ndarray:
    return np.array(_words(_stream(seed, "lexicon"), LEXICON))


def topic_words(seed: int, number: int, words: np.ndarray) -> np.ndarray:
    rng = _stream(seed, "topic", number)
    chosen = rng.choice(words, NOUNS + VERBS).astype(object)
    chosen[NOUNS:] += "ed"
    return rng.permutation(chosen)


def trials(
    pairs: int, *, authors: int = 400, topics: int = 120, characters: int = 21_000, seed: int = 1
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(trial, truth) of every pair."""
    if authors < 2 or topics < 2:
        raise ValueError("two authors and two topics are the least")
    writers = [Author(seed, number, topics) for number in range(authors)]
    known = lexicon(seed)
    words = [topic_words(seed, number, known) for number in range(topics)]
    for number in range(pairs):
        rng = _stream(seed, "pair", number)
        same = bool(rng.random() < SAME_AUTHOR)
        first, second = (writers[n] for n in rng.permutation(authors)[:2])
        if same:  # as in PAN20, on two topics
            second = first
            about = [int(topic) for topic in rng.permutation(first.topics)[:2]]
        else:
            about = [int(rng.choice(first.topics)), int(rng.choice(second.topics))]
            if rng.random() < SAME_TOPIC:
                about[1] = about[0]
        texts = [who.write(words[t], characters, rng) for who, t in zip((first, second), about, strict=True)]
        trial = {"id": f"generated-{number}", "fandoms": [f"topic-{t}" for t in about], "pair": texts}
        yield trial, {"id": trial["id"], "same": same, "authors": [first.name, second.name]}


def write(folder: Path, pairs: int, **options: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "pairs.jsonl").open("wb") as out, (folder / "truth.jsonl").open("wb") as answers:
        for trial, truth in trials(pairs, **options):
            out.write(orjson.dumps(trial, option=orjson.OPT_APPEND_NEWLINE))
            answers.write(orjson.dumps(truth, option=orjson.OPT_APPEND_NEWLINE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, required=True)
    for name, default in (("authors", 400), ("topics", 120), ("characters", 21_000), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = vars(parser.parse_args())
    write(options.pop("folder"), options.pop("pairs"), **options)


if __name__ == "__main__":
    main()
