#!/usr/bin/env python3
"""Reads taskreel's bytes by docs/format.md alone: a second reader, which shares nothing with the first.

    reader.py record FILE [EVENT=BODYFILE ...]   one commit record; bodies that stand outside it, by event number
    reader.py export FILE [HEAD]                 an export (NDJSON), held against a log's HEAD file if one is named

Prints each fault on a line and a summary; ends with 1 if there was a fault, with 2 if the file is none of ours.
"""
import hashlib
import json
import pathlib
import struct
import sys

CHUNK = 57_344
ZEROS = bytes(32)


class Fault(Exception):
    """What is wrong with bytes, in words."""


def sha(*pieces):
    return hashlib.sha256(b"".join(pieces)).digest()


class Cursor:
    """Takes fields off the front of bytes; never more than there are."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count, field):
        if self.at + count > len(self.data):
            raise Fault(f"the record ends within its {field}")
        piece = self.data[self.at:self.at + count]
        self.at += count
        return piece

    def number(self, code, field):
        return struct.unpack(">" + code, self.take(struct.calcsize(code), field))[0]

    def text(self, field):
        try:
            return self.take(self.number("H", field), field).decode()
        except UnicodeDecodeError:
            raise Fault(f"the {field} is not UTF-8") from None


def command_digest(data):
    """The command's digest among the optional fields, if it is there."""
    c, least, digest = Cursor(data), 1, None
    while c.at < len(data):
        tag, content = c.number("H", "tag"), c.take(c.number("H", "length"), "optional field")
        if tag < least or tag == 1 and len(content) != 32:
            raise Fault(f"the optional field {tag} is out of order or has the wrong length")
        if tag >= 0x8000:
            raise Fault(f"the record has the field {tag}, which this reader does not know")
        least, digest = tag + 1, content.hex() if tag == 1 else digest
    return digest


def decode(data):
    """The header of a record, its leaf hash, and its events with what stands beside the header."""
    c = Cursor(data)
    if c.number("B", "format") != 2:
        raise Fault(f"the record has format {data[0]}, not 2")
    r = {"stream": c.text("stream id"), "first_version": c.number("Q", "first version"),
         "set_id": c.take(16, "set id").hex(), "part": c.number("H", "part"), "parts": c.number("H", "parts"),
         "partition": c.number("I", "partition"), "epoch": c.number("Q", "epoch"), "time": c.number("q", "time"),
         "command_id": c.text("command id"), "causation_id": c.text("causation id"),
         "correlation_id": c.text("correlation id"), "principal": c.text("principal"),
         "basis": c.number("B", "basis"),
         "command_digest": command_digest(c.take(c.number("H", "optional fields"), "optional fields")),
         "previous": c.take(32, "previous hash").hex()}
    count = c.number("H", "number of events")
    if not 1 <= count <= 1024 or r["part"] >= r["parts"] or r["first_version"] < 1 or r["basis"] > 1:
        raise Fault("a number in the header is outside what a record can hold")
    events = []
    for _ in range(count):
        kind, schema, length = struct.unpack(">HBI", c.take(7, "event entry"))
        events.append({"kind": kind, "schema": schema, "length": length, "digest": c.take(32, "event entry")})
    r["hash"] = sha(b"\0", data[:c.at]).hex()
    for event in events:
        place, event["salt"] = c.number("B", "place"), c.take(16, "salt")
        event["chunks"] = None
        if place == 0:
            event["body"] = c.take(event["length"], "body")
        elif place == 1:
            chunks = c.number("H", "number of chunks")
            event["chunks"], event["body"] = [c.take(32, "chunk digest") for _ in range(chunks)], None
        else:
            raise Fault(f"a body is kept in place {place}, which this reader does not know")
    if c.at != len(data):
        raise Fault(f"{len(data) - c.at} bytes follow the last body")
    r["events"] = events
    return r


def check_bodies(record, outside):
    """Faults of the bodies; `outside` has those that stand outside the record, by event number."""
    for number, event in enumerate(record["events"]):
        version = record["first_version"] + number
        body = event["body"]
        if event["chunks"] is not None:
            body = outside.pop(number, None)
            if body is None:
                yield f"the body of version {version} is stored outside the record and is missing"
                continue
            cut = [body[at:at + CHUNK] for at in range(0, len(body), CHUNK)]
            if [sha(event["salt"], chunk) for chunk in cut] != event["chunks"]:
                yield f"the chunks of version {version} do not have their digests"
        if len(body) != event["length"] or sha(event["salt"], body) != event["digest"]:
            yield f"the body of version {version} does not have its digest"
    for number in outside:
        yield f"a body is given for event {number}, which has none outside"


class Log:
    """What must hold from one record to the next."""

    def __init__(self):
        self.ends, self.position, self.epoch, self.open, self.leaves = {}, 0, 0, None, []

    def take(self, record, position):
        if position != self.position + 1:
            yield f"position {position} follows position {self.position}"
        version, previous = self.ends.get(record["stream"], (0, ZEROS.hex()))
        if record["first_version"] != version + 1:
            yield f"version {record['first_version']} follows version {version}"
        if record["previous"] != previous:
            yield "it does not name the hash of the record before it in its stream"
        if record["epoch"] < self.epoch:
            yield f"epoch {record['epoch']} follows epoch {self.epoch}"
        place = (record["set_id"], record["part"], record["parts"])
        if place != (self.open or (record["set_id"], 0, record["parts"])):
            yield "an append is not whole here"
        follows = (place[0], place[1] + 1, place[2])
        self.open = follows if follows[1] < follows[2] else None
        count = len(record["events"])
        self.ends[record["stream"]] = (record["first_version"] + count - 1, record["hash"])
        self.position, self.epoch = position + count - 1, record["epoch"]
        self.leaves.append(bytes.fromhex(record["hash"]))


def line_faults(line, log):
    """Faults of one line of an export; the record is entered into the log if it can be read."""
    try:
        said = json.loads(line)
        record = decode(bytes.fromhex(said["bytes"]))
        outside = {body["event"]: bytes.fromhex(body["body"]) for body in said.get("detached", [])}
        position = int(said["position"])
    except Fault as fault:
        yield str(fault)
        return
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        yield f"it cannot be read: {error!r}"
        return
    words = dict(record, principal_basis=["asserted", "authenticated"][record["basis"]])
    for field in ("hash", "stream", "first_version", "set_id", "part", "parts", "partition", "epoch", "command_id",
                  "command_digest", "causation_id", "correlation_id", "principal", "principal_basis", "previous"):
        if said.get(field) != words[field]:
            yield f"its {field} is {said.get(field)!r}, but its bytes say {words[field]!r}"
    events = said.get("events", [])
    if len(events) != len(record["events"]):
        yield f"it tells of {len(events)} events, but its bytes hold {len(record['events'])}"
    for number, (event, meant) in enumerate(zip(events, record["events"])):
        wanted = (record["first_version"] + number, position + number, meant["kind"], meant["schema"],
                  meant["digest"].hex())
        fields = ("version", "position", "kind_number", "schema_version", "digest")
        if not isinstance(event, dict) or tuple(event.get(field) for field in fields) != wanted:
            yield f"what it says of event {number} is not what its bytes say"
    yield from check_bodies(record, outside)
    yield from log.take(record, position)


def frontier(leaves):
    """The roots of the full subtrees of the RFC 6962 tree over these leaves, the largest first."""
    nodes = []
    for leaf in leaves:
        nodes.append((1, leaf))
        while len(nodes) > 1 and nodes[-1][0] == nodes[-2][0]:
            (size, right), (_, left) = nodes.pop(), nodes.pop()
            nodes.append((2 * size, sha(b"\1", left, right)))
    return [node for _, node in nodes]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def root(leaves):
    """RFC 6962's tree hash: the full subtrees joined from the right; SHA-256 of nothing for no leaves."""
    nodes = frontier(leaves) or [sha()]
    joined = nodes.pop()
    while nodes:
        joined = sha(b"\1", nodes.pop(), joined)
    return joined.hex()


def head_faults(text, log):
    """Holds the records against a HEAD file, at the record up to which it was written."""
    body, found, checksum = text.rpartition("checksum ")
    if not found or checksum.strip() != f"{crc32c(body.encode()):08x}":
        yield "HEAD: its checksum is wrong"
        return
    title, position, size, *nodes = body.splitlines()
    if title != "taskreel head 1":
        yield "HEAD: it is none of format 1"
        return
    position, size = int(position.split()[1]), int(size.split()[1])
    if size > len(log.leaves) or position > log.position:
        yield (f"HEAD: it says {size} records up to position {position} were durable; the log has "
               f"{len(log.leaves)} up to {log.position}")
    elif [node.hex() for node in frontier(log.leaves[:size])] != [node.split()[1] for node in nodes]:
        yield f"HEAD: the tree over the first {size} records is another"


def read_export(path, head=None):
    log, faults = Log(), []
    with open(path, "rb") as file:
        try:
            header = json.loads(file.readline())
            known = (header["schema"], header["format"], header["head"] >= 0) == ("taskreel.export/2", 2, True)
            ends = [(header["head"], header["records"], header["root"])]
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            print("it is no export of taskreel's format 2")
            return 2
        for number, line in enumerate(file, 2):
            if len(ends) == 2:
                faults.append(f"line {number}: it stands after the last line")
            elif line.startswith(b'{"end":'):
                end = json.loads(line)
                ends.append((end["end"], end["records"], end["root"]))
                continue
            faults += [f"line {number}: {fault}" for fault in line_faults(line, log)]
    if len(ends) < 2 or log.open:
        faults.append("its last line is missing")
    is_end = (log.position, len(log.leaves), root(log.leaves))
    faults += [f"its {place} line says {said}, but it ends with {is_end}"
               for place, said in zip(("first", "last"), ends) if said != is_end]
    if head:
        faults += head_faults(pathlib.Path(head).read_text("utf-8"), log)
    print(*faults, f"root {is_end[2]}", f"{len(log.leaves)} records, {log.position} events, {len(log.ends)} streams, "
          f"{len(faults)} faults", sep="\n")
    return 1 if faults else 0


def read_record(path, bodies):
    outside = {}
    for argument in bodies:
        number, name = argument.split("=", 1)
        outside[int(number)] = pathlib.Path(name).read_bytes()
    try:
        record = decode(pathlib.Path(path).read_bytes())
    except Fault as fault:
        print(fault)
        return 1
    faults = list(check_bodies(record, outside))
    shown = dict(record, events=[event["kind"] for event in record["events"]])
    print(json.dumps(shown, ensure_ascii=False))
    print(*faults, f"{len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    match sys.argv[1:]:
        case ["record", path, *bodies]:
            sys.exit(read_record(path, bodies))
        case ["export", path, *head] if len(head) < 2:
            sys.exit(read_export(path, *head))
    print(__doc__)
    sys.exit(2)
