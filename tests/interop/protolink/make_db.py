"""Writes what a Protolink program keeps: `make_db.py FILE [SESSION_MESSAGES]`. Runs with each supported version.

The agent `weather` runs a tool, fails with a tool, and holds a conversation of two turns; a second agent keeps a
conversation of SESSION_MESSAGES messages (3 by default); a run has a report; one task was at work when its process was killed.
"""

import asyncio
import json
import logging
import sqlite3
import sys
from pathlib import Path

from protolink.agents import Agent
from protolink.core.report import RunReport
from protolink.core.run_context import RunContext
from protolink.llms import MockLLM
from protolink.llms.history import ConversationHistory
from protolink.models import Message, Part, Task
from protolink.state import ConversationState
from protolink.storage import SQLiteRunStore, SQLiteStorage

logging.disable(logging.CRITICAL)


def tool_task(tool: str, args: dict, session: str | None = None) -> Task:
    """A task with one call of a tool."""
    message = Message(role="user", parts=[Part.tool_call(tool_name=tool, args=args)])
    task = Task(messages=[message])
    if session:
        task.metadata["session_id"] = session
    return task


async def fill(file: str, messages: int) -> None:
    """Runs tasks and conversations whose storage is the file."""
    runs = SQLiteRunStore(file)
    agent = Agent(
        card={"name": "weather", "description": "Knows the weather", "url": "http://127.0.0.1:1"},
        llm=MockLLM(default_response="Take a coat."),
        system_prompt="Answer about the weather.",
        storage=SQLiteStorage(file, namespace="weather"),
        state=["conversation"],
        run_store=runs,
        verbosity=0,
    )

    @agent.tool(name="add", description="Adds two numbers")
    def add(a: int, b: int) -> int:
        return a + b

    await agent.run_task(tool_task("add", {"a": 1, "b": 2}))
    await agent.run_task(tool_task("nowhere", {}))
    for prompt in ("Coat in Oslo?", "And in Bergen, with an ø?"):
        task = Task.create_infer(prompt=prompt)
        task.metadata["session_id"] = "demo"
        task = await agent.run_task(task)
    context = RunContext.from_task(task)
    report = RunReport(context=context, final_task=task.to_dict(), metadata={"note": "the last turn"})
    runs.save_report(report, agent_name="weather", metadata={"kept": True})

    killed = tool_task("add", {"a": 3, "b": 4})
    killed.begin()
    runs.save_task(killed, agent_name="weather")

    history = ConversationHistory(system_prompt="You talk for long.")
    for number in range((messages - 1) // 2):
        history.add_user(f"question {number}")
        history.add_assistant(f"answer {number}")
    ConversationState(SQLiteStorage(file, namespace="talker")).save_history("long", history)


def main() -> None:
    """Makes the file anew and prints what the real package reads back from it."""
    file = sys.argv[1]
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    Path(file).unlink(missing_ok=True)
    asyncio.run(fill(file, messages))
    runs = SQLiteRunStore(file)
    tasks = [record.to_dict() for record in runs.list_task_records(limit=1000)]
    sessions = {name: SQLiteStorage(file, namespace=name).load() for name in ("weather", "talker")}
    with sqlite3.connect(file) as connection:
        connection.execute("VACUUM")
    print(json.dumps({"tasks": tasks, "sessions": sessions}))


main()
