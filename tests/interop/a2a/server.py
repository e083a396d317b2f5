"""An agent of A2A's SDK for Python, 1.x: `server.py [FILE]` prints its address, and serves until its input ends.

Its tasks are in memory, or in the SQLite database FILE.

It speaks 1.0 and 0.3 over JSON-RPC (at /rpc) and REST. It echoes; told to `ask` it waits for an answer, told to `report` it
makes a result in two pieces, with a pause between them where it is told `slow`, told to `think` it works for a
second, and told to `wait` it goes on working until it is canceled.
"""

import asyncio
import os
import socket
import sys
import threading

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        text = context.get_user_input()
        await updater.start_work()
        if text == "ask":
            await updater.requires_input(updater.new_agent_message([Part(text="Which city?")]))
            return
        if text == "wait":
            await asyncio.sleep(60)
        if text == "think":
            await asyncio.sleep(1)
        if text in ("report", "slow"):
            await updater.add_artifact([Part(text="one ")], artifact_id="report", append=False)
            await asyncio.sleep(0.5 if text == "slow" else 0)
            await updater.add_artifact([Part(text="two")], artifact_id="report", append=True, last_chunk=True)
        await updater.complete(updater.new_agent_message([Part(text=f"heard {text}")]))

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def store():
    if len(sys.argv) == 1:
        return InMemoryTaskStore()
    from a2a.server.tasks import DatabaseTaskStore
    from sqlalchemy.ext.asyncio import create_async_engine

    return DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{sys.argv[1]}"))


async def served(server, listener, tasks):
    if not isinstance(tasks, InMemoryTaskStore):
        # Two first requests at once would both make its table.
        await tasks.initialize()
    await server.serve(sockets=[listener])


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    ways = [
        AgentInterface(url=f"{url}{path}", protocol_binding=binding, protocol_version=version)
        for version in ("0.3", "1.0")
        for path, binding in (("/rpc", "JSONRPC"), ("", "HTTP+JSON"))
    ]
    card = AgentCard(
        name="peer",
        description="An agent of the SDK",
        version="1",
        supported_interfaces=ways,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="echo", description="Echoes", tags=["echo"])],
    )
    tasks = store()
    handler = DefaultRequestHandler(Agent(), tasks, card)
    routes = create_agent_card_routes(card) + create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
    routes += create_rest_routes(handler, enable_v0_3_compat=True)
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
    # Its parent goes: so does it.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(url, flush=True)
    asyncio.run(served(server, listener, tasks))


main()
