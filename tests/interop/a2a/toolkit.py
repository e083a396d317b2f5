"""The toolkit of a2a-utils, for the comparison with ours.

Without arguments it reads cases from stdin, a list of {"area", "input"}, answers each with scripted fakes in the place of the
network and of the clock, and prints them with "expected" beside. With an address it runs the six tools at a real agent, and
prints what each step answered, one JSON object a line.
"""

import asyncio
import json
import re
import sys
import types

from a2a.client.errors import A2AClientHTTPError, A2AClientTimeoutError
from a2a.types import (
    AgentCard,
    GetTaskResponse,
    SendMessageResponse,
    SendStreamingMessageResponse,
    Task,
)
from a2a_utils import A2AAgents, A2ASession, A2ATools
from a2a_utils.client import a2a_agents, a2a_session
from a2a_utils.types import ArtifactSettings
from loguru import logger

logger.remove()

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CARD = {
    "name": "Code Reviewer",
    "description": "Review code for best practices",
    "url": "https://a.example.com/rpc",
    "version": "1.0.0",
    "capabilities": {},
    "skills": [],
    "defaultInputModes": ["text"],
    "defaultOutputModes": ["text"],
}
CONFIG = {"rb": {"url": "https://review.example.com/.well-known/agent-card.json"}}


def without_ids(value):
    """A value with a word for each id that was made anew."""
    if isinstance(value, str):
        return "$UUID" if UUID.fullmatch(value) else value
    if isinstance(value, dict):
        return {key: without_ids(item) for key, item in value.items()}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


class Script:
    """The answers of a case, and what was asked."""

    def __init__(self, case):
        self.cards, self.remote = case.get("cards", {}), case.get("remote", {})
        self.now, self.calls, self.sleeps, self.requests = 0.0, [], [], []
        self.given = {}

    def note(self, method, params, http_kwargs, timeout):
        """Notes a call."""
        headers = (http_kwargs or {}).get("headers")
        params = without_ids(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.calls.append(
            {"method": method, "params": params, "headers": headers, "http_timeout_s": timeout, "at": self.now}
        )

    def next(self, kind):
        """The next answer of a kind; the last one again where there are no more."""
        answers = self.remote.get(kind, [])
        at = self.given[kind] = self.given.get(kind, -1) + 1
        return answers[min(at, len(answers) - 1)]

    def result(self, answer):
        """The content of a response."""
        self.now += answer.get("takes", 0)
        if answer.get("raise") == "timeout":
            raise A2AClientTimeoutError("Client Request timed out")
        if "raise" in answer:
            raise A2AClientHTTPError(answer["status"], answer["message"])
        return {"jsonrpc": "2.0", "id": "1", **{key: answer[key] for key in ("result", "error") if key in answer}}


def fakes(script):
    """Puts the script in the place of the network and of the clock."""

    class Resolver:
        def __init__(self, httpx_client, base_url, agent_card_path):
            self.base, self.path = base_url, agent_card_path

        async def get_agent_card(self, http_kwargs=None):
            headers = (http_kwargs or {}).get("headers")
            script.requests.append({"base_url": self.base, "card_path": self.path, "headers": headers})
            card = script.cards.get(self.base + self.path, CARD)
            if isinstance(card, str):
                raise A2AClientHTTPError(503, card)
            return AgentCard.model_validate(card)

    class Client:
        def __init__(self, httpx_client, agent_card):
            self.timeout = httpx_client.timeout.read

        async def send_message(self, request, http_kwargs=None):
            script.note("message/send", request.params, http_kwargs, self.timeout)
            return SendMessageResponse.model_validate(script.result(script.next("send")))

        async def get_task(self, request, http_kwargs=None):
            script.note("tasks/get", request.params, http_kwargs, self.timeout)
            return GetTaskResponse.model_validate(script.result(script.next("get_task")))

        async def resubscribe(self, request, http_kwargs=None):
            script.note("tasks/resubscribe", request.params, http_kwargs, self.timeout)
            for frame in script.remote.get("stream", []):
                answer = {"result": frame["event"], **frame} if "event" in frame else frame
                yield SendStreamingMessageResponse.model_validate(script.result(answer))

    async def sleep(seconds):
        script.sleeps.append(seconds)
        script.now += seconds

    a2a_agents.A2ACardResolver = Resolver
    a2a_session.A2AClient = Client
    a2a_session.time = types.SimpleNamespace(monotonic=lambda: script.now)
    a2a_session.asyncio = types.SimpleNamespace(sleep=sleep, timeout=asyncio.timeout)


class Store:
    """Tasks, and those that were saved."""

    def __init__(self, tasks):
        self.tasks = {task["id"]: Task.model_validate(task) for task in tasks}
        self.saves = []

    async def save(self, task, context=None):
        self.saves.append([task.id, task.status.state.value])
        self.tasks[task.id] = task

    async def get(self, task_id, context=None):
        return self.tasks.get(task_id)


async def agents_for_llm(case, script):
    """Operations on a registry."""
    agents, results, orders = A2AAgents(case.get("config")), [], []
    for name, *args in case["ops"]:
        try:
            if name == "get_agents_ids":
                answer = list(await agents.get_agents())
            elif name == "get_agent_headers":
                agent = await agents.get_agent(*args)
                answer = agent.custom_headers if agent else None
            elif name == "initialization_errors":
                answer = agents.initialization_errors
            else:
                answer = await getattr(agents, name)(*args)
            results.append({"ok": answer})
            if isinstance(answer, dict):
                orders.append(list(answer))
        except Exception as error:
            results.append({"error": {"type": type(error).__name__, "message": str(error)}})
    requests = sorted(script.requests, key=lambda request: json.dumps(request, separators=(",", ":")))
    return {"results": results, "card_requests": requests, "llm_output_key_order": orders}


async def session_monitor(case, script):
    """A message or a task that is watched."""
    store = Store([])
    session = A2ASession(A2AAgents(case.get("config", CONFIG)), task_store=store)
    try:
        told = await getattr(session, case["method"])(**case["args"])
        state = told.status.state.value if isinstance(told, Task) else None
        answer = {"result": {"kind": told.kind, "state": state, "id": told.id} if state else {"kind": "message", "id": told.message_id}}
    except Exception as error:
        answer = {"error": {"type": type(error).__name__, "message": str(error)}}
    return {
        **answer,
        "calls": script.calls,
        "sleeps": script.sleeps,
        "store_saves": store.saves,
        "file_saves": [],
        "clock_end": script.now,
        "card_requests": script.requests,
    }


async def tools(case, script):
    """A tool, end to end."""
    session = A2ASession(A2AAgents(case.get("config", CONFIG)), task_store=Store(case.get("stored_tasks", [])))
    made = A2ATools(session, artifact_settings=ArtifactSettings(**case.get("settings", {})))
    output = await getattr(made, case["tool"])(**case.get("args", {}))
    return {"output": output, "calls": [call["method"] for call in script.calls]}


AREAS = {"agents_for_llm": agents_for_llm, "session_monitor": session_monitor, "tools": tools}


async def answer(case):
    """A case with its answer."""
    script = Script(case["input"])
    fakes(script)
    return {**case, "expected": await AREAS[case["area"]](case["input"], script)}


async def at_agent(url):
    """The six tools at a real agent."""
    made = A2ATools(A2ASession(A2AAgents({"ours": {"url": url + "/.well-known/agent-card.json"}})))

    async def step(name, tool, **args):
        told = await getattr(made, tool)(**args)
        print(json.dumps({"step": name, "told": told}), flush=True)
        return told

    await step("agents", "get_agents")
    await step("agent", "get_agent", agent_id="ours")
    done = await step("report", "send_message", agent_id="ours", message="report")
    place = {"agent_id": "ours", "task_id": done["id"]}
    text, data = [artifact["artifact_id"] for artifact in done["artifacts"]]
    await step("text", "view_text_artifact", **place, artifact_id=text, character_end=3)
    await step("data", "view_data_artifact", **place, artifact_id=data, json_path="count")
    await step("get", "get_task", **place)
    asked = await step("ask", "send_message", agent_id="ours", message="ask")
    ids = {"context_id": asked["context_id"], "task_id": asked["id"]}
    await step("answer", "send_message", agent_id="ours", message="Oslo", **ids)
    await step("wait", "send_message", agent_id="ours", message="wait", timeout=0.5)
    await step("unknown", "get_task", agent_id="ours", task_id="none")
    await step("missing", "view_text_artifact", **place, artifact_id="none")


async def main():
    if len(sys.argv) > 1:
        await at_agent(sys.argv[1])
    else:
        print(json.dumps([await answer(case) for case in json.load(sys.stdin)]))


asyncio.run(main())
