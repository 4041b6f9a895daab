"""A corpus of our own: texts with habits of their author and words of their topic.

Habits (openings, contractions, punctuation, sentence length, pet words) stay with an author
across topics; nouns and verbs belong to the topic. So a verifier must learn the habits.
"""

from __future__ import annotations

import random

import orjson

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
OPENINGS = [
    "Then", "Well,", "After that", "I suppose", "Still,", "Of course", "In truth", "Maybe", "Meanwhile", "Somehow",
    "Once more", "And so", "But", "Now", "To be fair,", "Honestly,", "As ever", "Before long", "Perhaps", "Indeed,",
]  # fmt: skip
LINKS = ["and", "but", "while", "because", "though", "so", "as", "until", "since", "yet"]
PETS = [
    "very", "rather", "quite", "really", "almost", "just", "simply", "even", "only", "always", "never", "truly",
    "barely", "utterly", "sort of", "somewhat",
]  # fmt: skip
SUBJECTS = ["he", "she", "they", "we", "I", "it", "one", "nobody", "everyone", "someone"]
SPLIT = [("did not", "didn't"), ("was not", "wasn't"), ("could not", "couldn't"), ("would not", "wouldn't")]
ENDS = [".", "!", "...", "?", ";", " --"]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(2, 3)))


class Author:
    """`strength`: the share of sentences written by habit; the others are everybody's."""

    def __init__(self, rng: random.Random, strength: float) -> None:
        self.strength = strength
        self.openings = rng.sample(OPENINGS, 3)
        self.links = rng.sample(LINKS, 3)
        self.pets = rng.sample(PETS, 3)
        self.subjects = rng.sample(SUBJECTS, 4)
        self.contracts = rng.random() < 0.5
        self.opening_share = rng.uniform(0.1, 0.6)
        self.pet_share = rng.uniform(0.1, 0.7)
        self.clauses = rng.choice([1, 2, 3])
        self.ends = [".", ".", ".", rng.choice(ENDS), rng.choice(ENDS)]
        self.comma = rng.random() < 0.5

    def sentence(self, nouns: list[str], verbs: list[str], rng: random.Random) -> str:
        if rng.random() >= self.strength:
            return Author(rng, 1.0).sentence(nouns, verbs, rng)
        clauses = []
        for _ in range(rng.randint(1, self.clauses + 1)):
            verb = rng.choice(verbs)
            if rng.random() < 0.3:
                verb = rng.choice(SPLIT)[self.contracts] + " " + verb
            pet = rng.choice(self.pets) + " " if rng.random() < self.pet_share else ""
            clauses.append(f"{rng.choice(self.subjects)} {pet}{verb} the {rng.choice(nouns)}")
        text = clauses[0]
        for clause in clauses[1:]:
            text += ("," if self.comma else "") + f" {rng.choice(self.links)} {clause}"
        if rng.random() < self.opening_share:
            text = f"{rng.choice(self.openings)} {text}"
        return text[0].upper() + text[1:] + rng.choice(self.ends)


def documents(
    authors: int,
    *,
    each: int = 4,
    topics: int = 12,
    sentences: int = 40,
    strength: float = 1.0,
    seed: int = 0,
    shuffled: bool = False,
) -> list[dict[str, str]]:
    """JSON documents, `each` per author on different topics; `shuffled` deals the texts out at random."""
    rng = random.Random(seed)
    words = [([_word(rng) for _ in range(40)], [_word(rng) + "ed" for _ in range(20)]) for _ in range(topics)]
    out = []
    for number in range(authors):
        author = Author(rng, strength)
        for topic in rng.sample(range(topics), each):
            text = " ".join(author.sentence(*words[topic], rng) for _ in range(sentences))
            out.append({"author": f"author{number}", "topic": f"topic{topic}", "text": text})
    if shuffled:
        texts = [(d["topic"], d["text"]) for d in out]
        rng.shuffle(texts)
        for document, (topic, text) in zip(out, texts, strict=True):
            document["topic"], document["text"] = topic, text
    return out


MARKS = [
    "indeed", "oh", "quite", "never", "well", "surely", "though", "perhaps", "often", "rather", "simply", "almost",
    "--", "!", ";", "?", ":", "...",
]  # fmt: skip


def marked_documents(authors: int, *, topics: int = 40, each: int = 4, tokens: int = 105) -> list[dict[str, str]]:
    """Habits that a small network learns in minutes: every second token of an author is one of three of the MARKS,
    whatever the topic. The others are words of the topic or everybody's. Each author writes on two topics, so pairs by
    one author share no more words of a topic than many by two."""
    rng = random.Random(0)

    def words() -> list[str]:
        return [_word(rng) for _ in range(20)]

    common, about = words(), [words() for _ in range(topics)]
    out = []
    for number in range(authors):
        own, fields = rng.sample(MARKS, 3), rng.sample(range(topics), 2)
        for n in range(each):
            kinds = rng.choices([own, about[fields[n % 2]], common], [2, 1, 1], k=tokens)
            text = " ".join(rng.choice(kind) for kind in kinds)
            out.append({"author": f"author{number}", "topic": f"topic{fields[n % 2]}", "text": text})
    return out


def write(path, docs) -> None:
    path.write_bytes(b"".join(orjson.dumps(d) + b"\n" for d in docs))
