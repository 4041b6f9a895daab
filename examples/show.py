"""Print answers beside the truth: show.py ANSWERS TRUTH"""

import json
import sys


def read(path):
    with open(path, encoding="utf-8") as lines:
        return {entry["id"]: entry for entry in map(json.loads, lines)}


answers, truth = read(sys.argv[1]), read(sys.argv[2])
print(f"\n{'trial':12} {'texts by':44} {'p(same)':>8}  verdict")
for trial, expected in truth.items():
    value = answers[trial]["value"]
    verdict = "cannot tell" if value == 0.5 else "same author" if value > 0.5 else "different authors"
    mark = "" if value == 0.5 else "right" if (value > 0.5) == expected["same"] else "WRONG"
    print(f"{trial:12} {' / '.join(expected['authors']):44} {value:8.3f}  {verdict} {mark}")
