"""Print the nearest neighbours of every document: neighbours.py VECTORS [HOW MANY]

    pan21av embed -i documents.jsonl -o vectors.npz      # lines of {"id", "text"}
    python examples/neighbours.py vectors.npz 3

Vectors have length one, so a product of two is their cosine, 1 for one and the same text. What a cosine means depends
on the kind of text and its length: neighbours may be ranked by it; for a probability ask `pan21av verify`.
"""

import sys

import numpy as np

with np.load(sys.argv[1]) as file:
    ids, vectors, tokens = file["ids"], file["vectors"].astype(np.float32), file["tokens"]
count = min(int(sys.argv[2]) if len(sys.argv) > 2 else 3, len(ids) - 1)
for number, (name, length) in enumerate(zip(ids, tokens, strict=True)):  # row by row: there may be many documents
    cosines = vectors @ vectors[number]
    cosines[number] = -np.inf
    nearest = np.argsort(-cosines)[:count]
    print(f"{name} ({length} tokens):", ", ".join(f"{ids[n]} {cosines[n]:.2f}" for n in nearest))
