"""A small MCP server out of Python's standard library, so that the wire is spoken by somebody else than our client.

With `--http` it listens on a free port of 127.0.0.1 and prints the port; without, it speaks over its standard streams.
Everything that it is told is added to the file JOURNAL, one JSON text a line. LISTS names a way in which it lists its tools
badly: `large` (a description of 9 MiB), `many` (tools that are large together), `twice` (a name that is there already), `bad` (names that nobody can have), `endless` (pages without an end),
`never` (no answer at all).
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOCK = threading.Lock()
CANCELED = {}
HANGS_UP = object()


def journal(entry):
    with LOCK, open(os.environ["JOURNAL"], "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def tool(name, description, properties, annotations=None):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    listed = {"name": name, "description": description, "inputSchema": schema}
    if annotations is not None:
        listed["annotations"] = annotations
    return listed


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
FIRST = [
    tool("echo", "Says it again", {"text": TEXT}, {"readOnlyHint": True}),
    tool("add", "Adds", {"a": NUMBER, "b": NUMBER}, {"idempotentHint": True, "destructiveHint": False}),
    tool("fail", "Fails in words", {"why": TEXT}),
]
SECOND = [
    tool("refuse", "Takes no arguments that there are", {}),
    tool("wait", "Waits until it is canceled", {}),
    tool("die", "Ends the server", {}),
    tool("environment", "Names of variables", {}),
]


LISTS = os.environ.get("LISTS")
if LISTS == "twice":
    SECOND.append(tool("add", "Another one of this name", {}))
if LISTS == "bad":
    SECOND += [tool("", "No name", {}), tool("new\nline", "Two lines", {}), tool("x" * 300, "Too long", {})]


if LISTS == "large":
    SECOND.append(tool("large", "x" * (9 * 1024 * 1024), {}))
if LISTS == "many":
    SECOND += [tool(f"many{n}", "x" * 60000, {}) for n in range(100)]


def page(params):
    if LISTS == "never":
        threading.Event().wait()
    if LISTS == "endless":
        return {"tools": FIRST if not params.get("cursor") else [], "nextCursor": (params.get("cursor") or "") + "m"}
    return {"tools": SECOND} if params.get("cursor") else {"tools": FIRST, "nextCursor": "more"}


def call(params, request_id):
    name, args = params["name"], params.get("arguments") or {}
    text = lambda said, **more: {"content": [{"type": "text", "text": said}], **more}
    if name == "echo":
        return text(args["text"], structuredContent={"text": args["text"], "big": 1180591620717411303424})
    if name == "add":
        return text(str(args["a"] + args["b"]))
    if name == "fail" and args["why"] == "hang up":
        return None
    if name == "fail" and args["why"] == "nonsense":
        return {"content": 5}
    if name == "fail" and args["why"] == "long":
        return text("☃" * (300 * 1024), isError=True)
    if name == "fail" and args["why"] == "over the limit":
        return text("☃" * (6 * 1024 * 1024), isError=True)
    if name == "fail":
        return text("it cannot be done: " + args["why"], isError=True)
    if name == "environment":
        return text("", structuredContent=sorted(os.environ))
    if name == "wait":
        CANCELED.setdefault(request_id, threading.Event()).wait(60)
        return text("too late")
    if name == "die":
        os._exit(3)
    raise ValueError("no such arguments")


def answer(message):
    """The answer to one message; none to a notification."""
    method, params, request_id = message.get("method"), message.get("params") or {}, message.get("id")
    journal(message)
    if method == "notifications/cancelled":
        CANCELED.setdefault(params.get("requestId"), threading.Event()).set()
    if request_id is None:
        return None
    result, error = None, None
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    elif method == "tools/list":
        result = page(params)
    elif method == "tools/call":
        try:
            result = call(params, request_id)
        except ValueError as why:
            error = {"code": -32602, "message": str(why)}
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": "no such method"}
    if result is None and error is None:
        return HANGS_UP
    body = {"result": result} if error is None else {"error": error}
    return {"jsonrpc": "2.0", "id": request_id, **body}


def over_streams():
    def reply(message):
        said = answer(message)
        if said is HANGS_UP:
            os._exit(3)
        if said is not None:
            with LOCK:
                sys.stdout.write(json.dumps(said) + "\n")
                sys.stdout.flush()

    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            threading.Thread(target=reply, args=(message,), daemon=True).start()
        else:
            reply(message)


class OverHttp(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        journal({"authorization": self.headers.get("Authorization")})
        said = answer(message)
        if said is HANGS_UP:
            self.close_connection = True
            return
        body = b"" if said is None else json.dumps(said).encode()
        self.send_response(202 if said is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


if "--http" in sys.argv:
    port = int(sys.argv[sys.argv.index("--http") + 1])
    server = ThreadingHTTPServer(("127.0.0.1", port), OverHttp)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
else:
    over_streams()
