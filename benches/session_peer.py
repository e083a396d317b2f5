"""One turn of a conversation in the real Protolink 0.6.4 with SQLite: the yardstick of `cargo bench --bench session`.

python3 session_peer.py FOLDER TURNS MESSAGES:OTHERS ...

FOLDER keeps the virtual environment (made once, from the package index) and the databases. For each MESSAGES:OTHERS it
prints one line of JSON: the milliseconds of each of TURNS turns in a session that has so many messages, beside so many
other sessions of ten. Where Protolink cannot be had, one line says why and the exit code is 3.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = "protolink==0.6.4"
OTHER_MESSAGES = 10
TEXT = "What shall I wear in Oslo today, and will it rain before the evening? " * 2
ANSWER = "Four degrees and no rain before eight: a coat, no umbrella, and warm shoes."


def with_protolink(folder: Path) -> None:
    """Goes on in a virtual environment that has the package."""
    python = folder / "venv" / "bin" / "python"
    if os.environ.get("SESSION_PEER_INSIDE") == "1":
        return
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, capture_output=True)
        known = subprocess.run([str(python), "-c", "import protolink"], capture_output=True, check=False)
        if known.returncode != 0:
            command = [str(python), "-m", "pip", "install", "--quiet", PACKAGE]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        print(json.dumps({"unavailable": " ".join([f"{PACKAGE}: {error}", *last])}))
        sys.exit(3)
    os.environ["SESSION_PEER_INSIDE"] = "1"
    os.execv(str(python), [str(python), *sys.argv])


def measured(folder: Path, turns: int, messages: int, others: int) -> list[float]:
    """Milliseconds of each turn."""
    import asyncio
    import logging
    import time

    from protolink.agents import Agent
    from protolink.models import Message, Part, Task
    from protolink.llms.history import ConversationHistory
    from protolink.llms.mock_client import MockLLM
    from protolink.state import State
    from protolink.storage import SQLiteStorage

    logging.disable(logging.CRITICAL)
    database = folder / f"peer-{messages}-{others}.db"
    database.unlink(missing_ok=True)
    storage = SQLiteStorage(db_path=str(database), namespace="agent")

    def session(length: int) -> list:
        history = ConversationHistory(system_prompt="You are an agent.")
        for _ in range(length // 2):
            history.add_user(TEXT)
            history.add_assistant(json.dumps({"type": "final", "content": ANSWER}))
        return history.to_list()

    sessions = {f"other-{at}": session(OTHER_MESSAGES) for at in range(others)}
    sessions["measured"] = session(messages)
    storage.save(sessions)
    agent = Agent(
        card={"name": "agent", "description": "bench", "url": "http://127.0.0.1:1"},
        llm=MockLLM(default_response=ANSWER),
        state=State(storage, ["conversation"]),
        verbosity=0,
    )

    async def run() -> list[float]:
        spent = []
        for _ in range(turns + 1):
            task = Task.create(Message(role="user", parts=[Part.infer(prompt=TEXT)]))
            task.metadata["session_id"] = "measured"
            begin = time.perf_counter()
            done = await agent.handle_task(task)
            spent.append((time.perf_counter() - begin) * 1000)
            assert str(done.state.value) == "completed", done.to_dict()
        return spent[1:]

    spent = asyncio.run(run())
    kept = len((storage.load() or {})["measured"])
    # Its own system prompt takes the place of ours; each turn adds a question and an answer.
    assert kept >= messages + 2 * turns, (kept, messages)
    database.unlink()
    return spent


def main() -> None:
    folder, turns = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with_protolink(folder)
    for pair in sys.argv[3:]:
        messages, others = (int(number) for number in pair.split(":"))
        spent = measured(folder, turns, messages, others)
        print(json.dumps({"messages": messages, "others": others, "ms": spent}), flush=True)


main()
