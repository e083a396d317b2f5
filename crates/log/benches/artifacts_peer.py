"""Views and minimized forms of a2a-utils 0.7.3: the yardstick of `cargo bench -p taskreel-log --bench artifacts`.

python3 artifacts_peer.py ROWS

Prints three medians in milliseconds: 100 lines of a text of 1 MB, its minimized form, the summary of a table.
"""

import statistics
import sys
import time

from a2a_utils.artifacts import DataArtifacts, TextArtifacts

LINE = "What shall I wear in Oslo today, and will it rain?"
TEXT = "\n".join([LINE] * 20_000)
DEPARTMENTS = ["Engineering", "Design", "Sales"]


def row(at: int) -> dict:
    return {
        "id": at,
        "name": f"Employee {at}",
        "department": DEPARTMENTS[at % 3],
        "salary": 60_000 + at % 500 * 10,
        "score": at % 1_000 + 0.5,
        "active": at % 2 == 0,
        "manager": None,
        "city": f"City {at % 100}",
        "level": at % 7,
        "email": f"employee{at}@example.com",
    }


def millis(runs: int, run) -> float:
    spent = []
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        spent.append((time.perf_counter() - begin) * 1_000)
    return statistics.median(spent)


rows = [row(at) for at in range(int(sys.argv[1]))]
print(millis(21, lambda: TextArtifacts.view(TEXT, line_start=10_000, line_end=10_100)))
print(millis(21, lambda: TextArtifacts.minimize(TEXT)))
print(millis(1, lambda: DataArtifacts.summarize_table(rows)))
