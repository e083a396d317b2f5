"""a2a-utils at the other side of the interop test.

rewrite FROM TO              opens each task of a store, saves it in another, prints the ids that it could not open
generate FOLDER SEED COUNT   saves tasks of its own
list ROOT                    prints the files of every artifact and message that stdin names, as the file store finds them
files ROOT SEED COUNT        saves artifacts and messages of its own, prints what they hold
save ROOT                    saves the artifacts on stdin, each alone, prints the names of the files of each in their order
delete ROOT                  deletes every artifact and message that stdin names
"""

import asyncio
import base64
import json
import random
import struct
import sys
from pathlib import Path

from a2a.types import Artifact, Message, Task
from a2a_utils.files import LocalFileStore
from a2a_utils.tasks import JSONTaskStore
from loguru import logger

logger.remove()


async def rewrite(source: Path, target: Path) -> None:
    """Reads and writes again."""
    theirs, ours = JSONTaskStore(source), JSONTaskStore(target)
    missing = []
    for path in sorted(source.glob("*.json")):
        task = await theirs.get(path.stem)
        if task is None:
            missing.append(path.stem)
        else:
            await ours.save(task)
    print(json.dumps(missing))


class Values:
    """Random JSON as Python programs have it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, most: int = 12) -> str:
        """Any characters but halves of surrogate pairs, which no UTF-8 text holds."""
        ranges = [(0, 0x7F), (0x80, 0x7FF), (0x2020, 0x2030), (0xE000, 0xFFFF), (0x1F600, 0x1F64F), (0x10FFF0, 0x10FFFF)]
        return "".join(chr(self.random.randint(*self.random.choice(ranges))) for _ in range(self.random.randint(0, most)))

    def number(self) -> int | float:
        """Integers of any size, floats of any bits, and the ones that are printed in a special way."""
        special = [0, -0.0, 1.0, 100.0, 1e15, 1e16, 1e17, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 2**53, 2**63, -(2**64)]
        match self.random.randint(0, 3):
            case 0:
                return self.random.choice(special)
            case 1:
                return self.random.randint(-(2**70), 2**200)
            case 2:
                # Not finite too: pydantic writes null.
                return struct.unpack("d", self.random.randbytes(8))[0]
            case _:
                return round(self.random.uniform(-1000, 1000), self.random.randint(0, 6))

    def value(self, depth: int = 0) -> object:
        """Any JSON value."""
        match self.random.randint(0, 6 if depth < 4 else 4):
            case 0:
                return None
            case 1:
                return self.random.random() < 0.5
            case 2 | 3:
                return self.number()
            case 4:
                return self.text()
            case 5:
                return [self.value(depth + 1) for _ in range(self.random.randint(0, 4))]
            case _:
                return self.object(depth + 1)

    def object(self, depth: int = 0) -> dict[str, object]:
        """An object, keys of any text."""
        return {self.text(6): self.value(depth) for _ in range(self.random.randint(0, 4))}

    def maybe(self, made: object) -> object:
        """A value or nothing."""
        return made if self.random.random() < 0.6 else None

    def file(self) -> dict[str, object]:
        """A file, by its content or its address."""
        # No file has a name with a NUL; a2a-utils fails where one is asked for.
        named = {"name": self.maybe(self.text().replace("\0", "")), "mimeType": self.maybe("text/plain")}
        if self.random.random() < 0.7:
            return {"bytes": base64.b64encode(self.random.randbytes(self.random.randint(0, 40))).decode(), **named}
        return {"uri": "https://example.com/" + self.text(3), **named}

    def part(self) -> dict[str, object]:
        """A part of one of the three kinds."""
        part = self.random.choice([{"text": self.text()}, {"data": self.object()}, {"file": self.file()}])
        return {**part, "metadata": self.maybe(self.object())}

    def parts(self) -> list[dict[str, object]]:
        """Up to four parts."""
        return [self.part() for _ in range(self.random.randint(0, 4))]

    def artifact(self, name: str) -> dict[str, object]:
        """An artifact."""
        return {
            "artifactId": name,
            "parts": self.parts(),
            "name": self.maybe(self.text()),
            "description": self.maybe(self.text()),
            "metadata": self.maybe(self.object()),
            "extensions": self.maybe([self.text()]),
        }

    def message(self, name: str) -> dict[str, object]:
        """A message."""
        return {
            "messageId": name,
            "role": self.random.choice(["user", "agent"]),
            "parts": self.parts(),
            "contextId": self.maybe("c"),
            "taskId": self.maybe("t"),
            "referenceTaskIds": self.maybe(["a", "b"]),
            "metadata": self.maybe(self.object()),
        }

    def task(self, name: str) -> dict[str, object]:
        """A task."""
        states = ["submitted", "working", "input-required", "completed", "canceled", "failed", "rejected", "auth-required", "unknown"]
        status = {"state": self.random.choice(states), "timestamp": self.maybe("2026-01-01T00:00:00+00:00")}
        status["message"] = self.maybe(self.message("m"))
        return {
            "id": name,
            "contextId": self.text(),
            "status": status,
            "artifacts": self.maybe([self.artifact(f"a{number}") for number in range(self.random.randint(0, 3))]),
            "history": self.maybe([self.message(f"m{number}") for number in range(self.random.randint(0, 3))]),
            "metadata": self.maybe(self.object()),
        }


async def generate(folder: Path, seed: int, count: int) -> None:
    """Saves tasks."""
    store, values = JSONTaskStore(folder), Values(seed)
    for number in range(count):
        await store.save(Task.model_validate(values.task(f"task-{number}")))


def read(paths: list[str]) -> list[list[str]]:
    """Names and contents."""
    return [[Path(path).name, Path(path).read_bytes().hex()] for path in paths]


async def listed(root: Path) -> None:
    """Prints files by the ids on stdin: an artifact's two, or a message's one."""
    store = LocalFileStore(root)
    found = []
    for ids in json.load(sys.stdin):
        paths = await (store.get_artifact(*ids) if len(ids) == 2 else store.get_message(*ids))
        found.append(read(paths))
    print(json.dumps(found))


async def files(root: Path, seed: int, count: int) -> None:
    """Saves artifacts and messages whose files are all given as bytes; the same name twice is one file there."""
    store, values = LocalFileStore(root), Values(seed)
    saved = []
    for number in range(count):
        parts = [part for part in values.parts() if "uri" not in part.get("file", {})]
        if number % 2:
            paths = await store.save_message(Message.model_validate({**values.message(f"m{number}"), "parts": parts}))
            saved.append([[f"m{number}"], read(sorted(set(paths)))])
        else:
            paths = await store.save_artifact("t", Artifact(artifact_id=f"a{number}", parts=parts))
            saved.append([["t", f"a{number}"], read(sorted(set(paths)))])
    print(json.dumps(saved))


async def save(root: Path) -> None:
    """Saves artifacts and prints the names of their files."""
    store = LocalFileStore(root)
    named = []
    for artifact in json.load(sys.stdin):
        paths = await store.save_artifact("t", Artifact.model_validate(artifact))
        named.append([Path(path).name for path in paths])
    print(json.dumps(named))


async def delete(root: Path) -> None:
    """Deletes files by the ids on stdin."""
    store = LocalFileStore(root)
    for ids in json.load(sys.stdin):
        await (store.delete_artifact(*ids) if len(ids) == 2 else store.delete_message(*ids))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["rewrite", source, target]:
            asyncio.run(rewrite(Path(source), Path(target)))
        case ["generate", folder, seed, count]:
            asyncio.run(generate(Path(folder), int(seed), int(count)))
        case ["list", root]:
            asyncio.run(listed(Path(root)))
        case ["files", root, seed, count]:
            asyncio.run(files(Path(root), int(seed), int(count)))
        case ["save", root]:
            asyncio.run(save(Path(root)))
        case ["delete", root]:
            asyncio.run(delete(Path(root)))
        case _:
            sys.exit(__doc__)
