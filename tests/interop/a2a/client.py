"""The client of A2A's SDK against a server: prints one line of JSON for each step.

`client.py URL BINDING`: BINDING is JSONRPC, HTTP+JSON or, with 1.x, GRPC. The SDK may be one of 1.x or one of 0.3: what differs is in `One`
and `Zero`. The agent echoes, waits for an answer where it is told to `ask`, and goes on working where it is told to `wait`.
"""

import asyncio
import json
import sys

import httpx

try:
    from a2a.client import create_client  # 1.x alone has it

    IS_ONE = True
except ImportError:
    IS_ONE = False


def channel(address):
    import grpc.aio

    return grpc.aio.insecure_channel(address)


def say(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


class One:
    """The client of 1.x."""

    async def start(self, url, binding, http, streaming):
        from a2a.client import ClientConfig

        # The SDK loads its half of gRPC only where that is asked for.
        given = {} if binding != "GRPC" else {"grpc_channel_factory": channel}
        config = ClientConfig(
            streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding], **given
        )
        self.client = await create_client(url, client_config=config)
        return self

    @staticmethod
    def message(text, task=None):
        from a2a.types import Message, Part, Role

        given = {} if task is None else {"task_id": task.id, "context_id": task.context_id}
        return Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=text)], **given)

    async def send(self, text, task=None, at_once=False):
        from a2a.types import SendMessageConfiguration, SendMessageRequest

        configuration = SendMessageConfiguration(return_immediately=at_once)
        request = SendMessageRequest(message=self.message(text, task), configuration=configuration)
        kinds, last = [], None
        async for event in self.client.send_message(request):
            kinds.append(event.WhichOneof("payload"))
            last = event.task if event.HasField("task") else last
        return kinds, last

    async def get(self, task, length=None):
        from a2a.types import GetTaskRequest

        given = {} if length is None else {"history_length": length}
        return await self.client.get_task(GetTaskRequest(id=task.id, **given))

    async def listed(self, context):
        from a2a.types import ListTasksRequest

        found = await self.client.list_tasks(ListTasksRequest(context_id=context))
        return [task.id for task in found.tasks]

    async def cancel(self, task):
        from a2a.types import CancelTaskRequest

        return await self.client.cancel_task(CancelTaskRequest(id=task.id))

    async def follow(self, task, answer):
        from a2a.types import SubscribeToTaskRequest

        kinds = []
        async for event in self.client.subscribe(SubscribeToTaskRequest(id=task.id)):
            kinds.append(event.WhichOneof("payload"))
            if len(kinds) == 1:
                await answer()
        return kinds

    @staticmethod
    def state(task):
        from a2a.types import TaskState

        return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()

    @staticmethod
    def text(message):
        return message.parts[0].text


class Zero:
    """The client of 0.3."""

    async def start(self, url, binding, http, streaming):
        from a2a.client import ClientConfig, ClientFactory

        config = ClientConfig(streaming=streaming, httpx_client=http, supported_transports=[binding])
        self.client = await ClientFactory.connect(url, client_config=config)
        self.waiting = ClientConfig, ClientFactory, url, binding, http
        return self

    @staticmethod
    def message(text, task=None):
        from a2a.types import Message, Part, Role, TextPart

        given = {} if task is None else {"task_id": task.id, "context_id": task.context_id}
        part = Part(root=TextPart(text=text))
        return Message(message_id="m", role=Role.user, parts=[part], **given)

    async def send(self, text, task=None, at_once=False):
        client = self.client
        if at_once:
            config, factory, url, binding, http = self.waiting
            polling = config(
                streaming=False, polling=True, httpx_client=http, supported_transports=[binding]
            )
            client = await factory.connect(url, client_config=polling)
        kinds, last = [], None
        async for event in client.send_message(self.message(text, task)):
            last, update = event
            kinds.append("task" if update is None else update.kind.replace("-", "_"))
        return kinds, last

    async def get(self, task, length=None):
        from a2a.types import TaskQueryParams

        return await self.client.get_task(TaskQueryParams(id=task.id, history_length=length))

    async def listed(self, context):
        return None

    async def cancel(self, task):
        from a2a.types import TaskIdParams

        return await self.client.cancel_task(TaskIdParams(id=task.id))

    async def follow(self, task, answer):
        from a2a.types import TaskIdParams

        kinds = []
        async for _, update in self.client.resubscribe(TaskIdParams(id=task.id)):
            kinds.append("task" if update is None else update.kind.replace("-", "_"))
            if len(kinds) == 1:
                await answer()
        return kinds

    @staticmethod
    def state(task):
        return task.status.state.value.replace("-", "_")

    @staticmethod
    def text(message):
        return message.parts[0].root.text


async def main(url, binding):
    kind = One if IS_ONE else Zero
    async with httpx.AsyncClient(timeout=30) as http:
        client = await kind().start(url, binding, http, streaming=False)
        _, done = await client.send("hello")
        said = client.text(done.status.message)
        say("send", state=client.state(done), said=said, history=len(done.history))

        read = await client.get(done)
        say("get", same=read == done, state=client.state(read), history=len(read.history))
        say("length", history=len((await client.get(done, 1)).history or []))

        _, asked = await client.send("ask")
        say("ask", state=client.state(asked), said=client.text(asked.status.message))
        _, answered = await client.send("Oslo", asked)
        say("answer", same=answered.id == asked.id, state=client.state(answered))

        listed = await client.listed(done.context_id)
        say("list", listed=listed if listed is None else listed == [done.id])

        streaming = await kind().start(url, binding, http, streaming=True)
        kinds, _ = await streaming.send("report")
        say("stream", kinds=kinds)

        _, working = await client.send("wait", at_once=True)
        canceled = await client.cancel(working)
        say("cancel", was=client.state(working), state=client.state(canceled))

        _, asked = await client.send("ask")

        async def answer():
            await client.send("Oslo", asked)

        try:
            kinds = await streaming.follow(asked, answer)
        except Exception as error:  # noqa: BLE001, the test shows it
            kinds = [repr(error)]
        say("follow", kinds=kinds)

        try:
            await client.get(type("None_", (), {"id": "none"}))
            say("unknown", error=None)
        except Exception as error:  # noqa: BLE001, every class of the SDK's is an answer
            text = str(error)
            say("unknown", error=type(error).__name__, text=text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
