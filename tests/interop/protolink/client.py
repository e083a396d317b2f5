"""The real AgentClient against a server: `client.py URL STEP...`. Prints one line of JSON for each step.

Each step is a word, or a word with JSON behind a `=`. A step that fails prints {"error": TYPE, "message": TEXT}.
"""

import asyncio
import json
import logging
import sys

from protolink.client import AgentClient, RegistryClient
from protolink.models import AgentCard, Message, Part, Task
from protolink.transport import get_transport

logging.disable(logging.CRITICAL)
PATIENCE = 30


def tool(given: dict) -> Task:
    """A task with one call of a tool."""
    task = Task(messages=[Message(role="user", parts=[Part.tool_call(tool_name=given["tool"], args=given.get("args", {}))])])
    if "id" in given:
        task.id = given["id"]
    return task


def infer(given: dict) -> Task:
    """A task with one inference, perhaps of a session."""
    task = Task.create_infer(prompt=given["prompt"])
    if "session" in given:
        task.metadata["session_id"] = given["session"]
    return task


async def streamed(transport: str, url: str, task: Task) -> list:
    """All events of a task, as they are sent."""
    client = AgentClient(transport=transport, url=url)
    events = []
    async for event in client.send_task_streaming(url, task):
        events.append(event if isinstance(event, dict) else event.to_dict())
    return events


async def canceled(transport: str, url: str, given: dict) -> dict:
    """Cancels a task that is at work; returns what both callers are answered."""
    client, other = AgentClient(transport=transport, url=url), AgentClient(transport=transport, url=url)
    task = tool(given)
    sent = asyncio.create_task(client.send_task(url, task))
    while True:
        try:
            answer = await other.cancel_task(url, task.id, reason="enough")
            break
        except Exception as error:
            # It has not come in yet.
            if sent.done():
                raise
            if "404" not in str(error) and "500" not in str(error) and "not found" not in str(error):
                raise
            await asyncio.sleep(0.01)
    return {"canceler": answer.to_dict(), "caller": (await sent).to_dict()}


async def step(url: str, word: str, given) -> object:
    """Carries out one step."""
    client = AgentClient(transport="http", url=url)
    websocket = url.replace("http", "ws", 1)
    match word:
        case "card":
            return (await client.get_agent_card(url)).to_dict()
        case "tool":
            return (await client.send_task(url, tool(given))).to_dict()
        case "infer":
            return (await client.send_task(url, infer(given))).to_dict()
        case "stream":
            return await streamed("sse", url, infer(given) if "prompt" in given else tool(given))
        case "cancel":
            return await canceled("http", url, given)
        case "describe":
            return (await client.describe_state(url, **given)).to_dict()
        case "reset":
            return (await client.reset_state(url, **given)).to_dict()
        case "compact":
            return (await client.compact_state(url, **given)).to_dict()
        case "compact_history":
            return (await client.compact_history(url, **given)).to_dict()
        case "ws_tool":
            client = AgentClient(transport="websocket", url=websocket)
            return (await client.send_task(websocket, tool(given))).to_dict()
        case "ws_stream":
            return await streamed("websocket", websocket, infer(given) if "prompt" in given else tool(given))
        case "ws_cancel":
            return await canceled("websocket", websocket, given)
        case "register":
            return await RegistryClient(get_transport("http", url=url)).register(AgentCard.from_dict(given))
        case "heartbeat":
            return await RegistryClient(get_transport("http", url=url)).heartbeat(given)
        case "unregister":
            return await RegistryClient(get_transport("http", url=url)).unregister(given)
        case "discover":
            return [card.to_dict() for card in await RegistryClient(get_transport("http", url=url)).discover(given)]
    raise ValueError(f"there is no step {word}")


async def main() -> None:
    """Carries out the steps one after another."""
    for argument in sys.argv[2:]:
        word, _, given = argument.partition("=")
        try:
            made = await asyncio.wait_for(step(sys.argv[1], word, json.loads(given or "{}")), PATIENCE)
        except Exception as error:
            made = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(made), flush=True)


asyncio.run(main())
