"""The client of A2A's SDK registers a webhook of its own and is told what becomes of a task: one line of JSON for each step.

`webhook.py URL BINDING`, as `client.py`. What comes is read with the SDK's own types.
"""

import asyncio
import http.server
import json
import queue
import sys
import threading

import httpx

import client as base

CAME = queue.Queue()


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        CAME.put((dict(self.headers.items()), json.loads(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


async def one(client, task, url):
    from a2a.types import (
        AuthenticationInfo,
        DeleteTaskPushNotificationConfigRequest,
        GetTaskPushNotificationConfigRequest,
        ListTaskPushNotificationConfigsRequest,
        TaskPushNotificationConfig,
    )

    config = TaskPushNotificationConfig(
        task_id=task.id,
        id="mine",
        url=url,
        token="tok",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="cred"),
    )
    made = await client.create_task_push_notification_config(config)
    read = await client.get_task_push_notification_config(
        GetTaskPushNotificationConfigRequest(task_id=task.id, id="mine")
    )
    listed = await client.list_task_push_notification_configs(
        ListTaskPushNotificationConfigsRequest(task_id=task.id)
    )
    base.say("set", id=made.id, same=made == read, url=read.url == url, listed=len(listed.configs))

    async def delete():
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="mine")
        )
        listed = await client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        base.say("delete", listed=len(listed.configs))

    return delete


async def zero(client, task, url):
    from a2a.types import (
        GetTaskPushNotificationConfigParams,
        PushNotificationAuthenticationInfo,
        PushNotificationConfig,
        TaskPushNotificationConfig,
    )

    own = PushNotificationConfig(
        id="mine",
        url=url,
        token="tok",
        authentication=PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="cred"),
    )
    made = await client.set_task_callback(
        TaskPushNotificationConfig(task_id=task.id, push_notification_config=own)
    )
    read = await client.get_task_callback(
        GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="mine")
    )
    config = read.push_notification_config
    base.say("set", id=config.id, same=made == read, url=config.url == url, listed=1)

    async def delete():
        base.say("delete", listed=0)  # Its client has no such operation.

    return delete


def read(body):
    """The kind and the state of what came, read with the SDK's types."""
    if base.IS_ONE:
        from a2a.types import StreamResponse, TaskState
        from google.protobuf.json_format import ParseDict

        event = ParseDict(body, StreamResponse())
        kind = event.WhichOneof("payload")
        status = event.status_update.status.state if kind == "status_update" else 0
        return kind, TaskState.Name(status).removeprefix("TASK_STATE_").lower()
    from a2a.types import Task

    return "task", Task.model_validate(body).status.state.value


async def main(url, binding):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = f"http://127.0.0.1:{server.server_port}/hook"
    async with httpx.AsyncClient(timeout=30) as requests:
        kind = base.One if base.IS_ONE else base.Zero
        client = await kind().start(url, binding, requests, streaming=False)
        _, asked = await client.send("ask")
        delete = await (one if base.IS_ONE else zero)(client.client, asked, own)
        await client.send("Oslo", asked)
        came, heads = [], []
        while not came or came[-1][1] != "completed":
            head, body = await asyncio.to_thread(CAME.get, timeout=30)
            came.append(read(body))
            heads.append({name.lower(): value for name, value in head.items()})
        base.say(
            "told",
            kinds=sorted({kind for kind, _ in came}),
            last=came[-1][1],
            token=all(head["x-a2a-notification-token"] == "tok" for head in heads),
            authorization=all(head["authorization"] == "Bearer cred" for head in heads),
        )
        await delete()
    server.shutdown()


asyncio.run(main(*sys.argv[1:]))
