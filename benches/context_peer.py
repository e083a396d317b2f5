"""FitContextWindow of agentix 0.5.0 over a long history: the yardstick of `cargo bench --bench context`.

python3 context_peer.py FOLDER MESSAGES CHARACTERS MAX_TOKENS RUNS

FOLDER keeps the virtual environment (made once, from the package index, by the hashes in `context_peer.txt`). Prints one
line of JSON: the milliseconds of each run, and the number of messages that were kept. Where agentix cannot be had, one line
says why and the exit code is 3.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("context_peer.txt")


def with_agentix(folder: Path) -> None:
    """Goes on in a virtual environment that has the package."""
    python = folder / "venv" / "bin" / "python"
    if os.environ.get("CONTEXT_PEER_INSIDE") == "1":
        return
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, capture_output=True)
        known = subprocess.run([str(python), "-c", "import agentix"], capture_output=True, check=False)
        if known.returncode != 0:
            command = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(REQUIREMENTS)]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        print(json.dumps({"unavailable": " ".join([f"agentix: {error}", *last])}))
        sys.exit(3)
    os.environ["CONTEXT_PEER_INSIDE"] = "1"
    os.execv(str(python), [str(python), *sys.argv])


def main() -> None:
    folder = Path(sys.argv[1])
    messages, characters, max_tokens, runs = (int(number) for number in sys.argv[2:6])
    folder.mkdir(parents=True, exist_ok=True)
    with_agentix(folder)

    import asyncio

    from agentix import FitContextWindow
    from agentix.types import Message, Role

    roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    history = [Message(role=roles[at % 4], content="x" * characters) for at in range(messages)]
    strategy = FitContextWindow(max_tokens)

    async def measured() -> dict:
        spent, kept = [], 0
        for _ in range(runs):
            begin = time.perf_counter()
            kept = len(await strategy.compact(history))
            spent.append((time.perf_counter() - begin) * 1000)
        return {"ms": spent, "kept": kept}

    print(json.dumps(asyncio.run(measured())))


main()
