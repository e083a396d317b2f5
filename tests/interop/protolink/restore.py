"""Prints the milliseconds in which Protolink reads a session from its SQLite file, once for each of COUNT times.

restore.py FILE NAMESPACE SESSION COUNT
"""

import json
import sys
import time

from protolink.state import ConversationState
from protolink.storage import SQLiteStorage

file, namespace, session, count = sys.argv[1:]
times, messages = [], 0
for _ in range(int(count)):
    began = time.perf_counter()
    history = ConversationState(SQLiteStorage(file, namespace=namespace)).get_history(session)
    times.append((time.perf_counter() - began) * 1000)
    messages = len(history.to_list())
print(json.dumps({"times": times, "messages": messages}))
