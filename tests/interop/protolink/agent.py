"""A real Protolink agent, or a registry, at a port of this machine, until its standard input ends.

agent.py agent PORT NAME TRANSPORT [--registry URL] [--state FILE]
agent.py registry PORT

The agent has the tools `add`, `echo` and `slow` (which ends only when it is canceled) and a model without a network: it
answers `delegate NAME TEXT` by a call of the tool `echo` of the agent NAME, and anything else by the same text in capitals.
Prints `ready` once it answers.
"""

import argparse
import asyncio
import json
import logging
import sys
import threading

from protolink.agents import Agent
from protolink.discovery import Registry
from protolink.llms import MockLLM
from protolink.storage import SQLiteStorage

logging.disable(logging.CRITICAL)


def reply(history, _system_prompt):
    """The model: what it answers to a history."""
    messages = history.messages
    asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
    results = [m["content"] for m in messages[-1:] if m["role"] in ("system", "tool") and "agent_result" in str(m["content"])]
    if results:
        return {"type": "final", "content": f"they said {json.loads(results[-1])['result']}"}
    words = asked.split(" ", 2)
    if words[0] == "delegate" and len(words) == 3:
        return {"type": "agent_call", "agent": words[1], "action": "tool_call", "tool": "echo", "args": {"text": words[2]}}
    return {"type": "final", "content": asked.upper()}


def agent(options) -> Agent:
    """The agent that the options name."""
    scheme = "ws" if options.transport == "websocket" else "http"
    more = {}
    if options.registry:
        more = {"registry": "http", "registry_url": options.registry}
    if options.state:
        more |= {"storage": SQLiteStorage(options.state, namespace=options.name), "state": ["conversation"]}
    made = Agent(
        card={"name": options.name, "description": "an agent of Protolink", "url": f"{scheme}://127.0.0.1:{options.port}"},
        transport=options.transport,
        llm=MockLLM(response_callback=reply),
        verbosity=0,
        **more,
    )

    @made.tool(name="add", description="Adds two numbers")
    async def add(a: int, b: int) -> int:
        return a + b

    @made.tool(name="echo", description="Gives the text back")
    async def echo(text: str) -> str:
        return text

    @made.tool(name="slow", description="Does not end")
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    return made


def main() -> None:
    """Serves until the standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["agent", "registry"])
    parser.add_argument("port", type=int)
    parser.add_argument("name", nargs="?", default="theirs")
    parser.add_argument("transport", nargs="?", default="http")
    parser.add_argument("--registry")
    parser.add_argument("--state")
    options = parser.parse_args()
    if options.kind == "registry":
        served = Registry(transport="http", url=f"http://127.0.0.1:{options.port}", verbosity=0)
    else:
        served = agent(options)
    served.start(background=True)
    print("ready", flush=True)
    sys.stdin.read()
    stop = threading.Thread(target=served.stop, daemon=True)
    stop.start()
    stop.join(5)
    # What a connection keeps open holds up no test.
    import os

    os._exit(0)


main()
