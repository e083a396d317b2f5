#!/usr/bin/env python3
"""Decodes the bodies of an export's events by docs/format.md alone, and compares each with its `payload`.

    bodies.py FILE ...   exports (NDJSON); prints the codes of the page's tables that do not occur, each fault and the kinds
                         that were read, ends with 1 if there was a fault
"""
import datetime
import json
import struct
import sys

import reader

STATE = "submitted working input-required completed failed canceled unknown".split()
ROLE = "system user assistant tool".split()
CALL = "tool infer delegate handler".split()
RECOVERY = "read-only idempotent reconcile manual reissue".split()
CLASS = "before-effect after-effect rejected exhausted superseded".split()
VERDICT = "landed did-not-happen inconclusive".split()
LIMIT = "max_steps max_llm_calls max_tool_calls max_input_tokens max_output_tokens max_runtime_seconds".split()
ANSWER = "given declined".split()
STAGE = "requested in-flight".split()
CUT = ["head", "minimized", "head_with_tip"]
TIME_LIMIT = "attempt heartbeat".split()
BASIS = "asserted authenticated".split()
STRATEGY = "recent tokens summary".split()
TABLES = [STATE, ROLE, CALL, RECOVERY, CLASS, VERDICT, LIMIT, ANSWER, STAGE, CUT, TIME_LIMIT, BASIS, STRATEGY]
# The codes that were read: the identity of a table, and the number.
MET = set()


class Body:
    """Takes values off the front of a body."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, count):
        piece = self.data[self.at:self.at + count]
        if len(piece) < count:
            raise ValueError("the body ends within a value")
        self.at += count
        return piece

    def u8(self):
        return self.raw(1)[0]

    def uint(self):
        first = self.u8()
        if first < 251:
            return first
        return int.from_bytes(self.raw({251: 2, 252: 4, 253: 8}[first]), "little")

    def i64(self):
        coded = self.uint()
        return coded >> 1 if coded % 2 == 0 else -(coded >> 1) - 1

    def f64(self):
        return struct.unpack("<d", self.raw(8))[0]

    def bool(self):
        return (False, True)[self.u8()]

    def text(self):
        return self.raw(self.uint()).decode()

    def json(self):
        return json.loads(self.text())

    def digest(self):
        return self.raw(32).hex()

    def salted(self):
        return f"secret:sha256-{self.raw(16).hex()}-{self.digest()}"

    def time(self):
        at = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(microseconds=self.i64())
        return at.isoformat()

    def option(self, take):
        return take() if (False, True)[self.u8()] else None

    def list(self, take):
        return [take() for _ in range(self.uint())]

    def object(self):
        return dict(self.list(lambda: (self.text(), self.json())))

    def word(self, words):
        code = self.u8()
        MET.add((id(words), code))
        return words[code]

    def fields(self, **takes):
        return {name: take() for name, take in takes.items()}

    def maybe_text(self):
        return self.option(self.text)

    def maybe_uint(self):
        return self.option(self.uint)

    def part(self):
        return self.fields(type=self.text, content=self.json)

    def message(self):
        return self.fields(id=self.maybe_text, role=self.maybe_text, parts=lambda: self.list(self.part),
                           timestamp=self.maybe_text)

    def artifact(self):
        text = self.maybe_text
        return self.fields(id=text, parts=lambda: self.list(self.part), metadata=self.object, timestamp=text,
                           kind=self.text, name=text, uri=text, media_type=text, action_id=text)

    def model_message(self):
        return self.fields(role=lambda: self.word(ROLE), content=self.text, name=self.maybe_text,
                           metadata=self.object, id=self.text, created_at=self.text, tool_calls=self.json,
                           tool_name=self.maybe_text)

    def turn_message(self):
        said = self.fields(message=self.model_message, part=self.uint, infer_call=self.maybe_text,
                           asks=lambda: self.list(self.text), answers=self.maybe_text)
        del said["part"]
        return said

    def usage(self):
        return self.option(lambda: self.fields(input_tokens=self.uint, output_tokens=self.uint))

    def failure(self):
        return {"class": self.word(CLASS)} | self.fields(type=self.text, message=self.text, usage=self.usage)

    def person(self, name):
        return {name: self.text(), "basis": self.word(BASIS)}

    def origin(self):
        return self.fields(run=self.uint, part=self.uint, step=self.uint, infer_call=self.maybe_text,
                           part_call_id=self.maybe_text, parent=lambda: self.option(self.parent))

    def parent(self):
        return self.fields(call_id=self.text, ordinal=self.uint)

    def prompt(self):
        return self.fields(session=self.maybe_text, read_to=self.uint, revision=self.uint, messages=self.uint,
                           tokens=self.maybe_uint, selection=lambda: self.option(self.selection), digest=self.digest,
                           renderer=self.uint)

    def selection(self):
        kept = lambda: self.fields(first=self.uint, count=self.uint)
        sizes = lambda: self.fields(counter=self.text, messages_before=self.uint, tokens_before=self.uint,
                                    tokens_after=self.uint, limit=self.maybe_uint)
        second = self.schema >= 2
        marker, more = ({"marker": self.maybe_uint}, {"markers": lambda: self.list(self.text),
                        "sizes": lambda: self.option(sizes)}) if second else ({}, {})
        cut = lambda: self.fields(message=self.uint, rule=lambda: self.word(CUT), characters=self.uint, **marker)
        rule = lambda: self.fields(rule=lambda: self.word(CUT), characters=self.uint, marker=self.maybe_uint,
                                   **{"except": lambda: self.list(self.uint)})
        third = {"rules": lambda: self.list(rule)} if self.schema >= 3 else {}
        return self.fields(strategy=self.text, kept=lambda: self.list(kept), cuts=lambda: self.list(cut), **more, **third)

    def price(self):
        return self.fields(input_per_million=self.uint, output_per_million=self.uint, currency=self.text)

    def time_limit(self):
        return self.word(TIME_LIMIT)

    def submitted(self):
        task = self.fields(id=self.text, state=lambda: self.word(STATE), messages=lambda: self.list(self.message),
                           artifacts=lambda: self.list(self.artifact), metadata=self.object, flow_state=self.json,
                           created_at=self.maybe_text)
        self.option(self.digest)
        return {"task": task}

    def state_changed(self):
        said = {"from": self.word(STATE), "to": self.word(STATE)}
        budget = self.option(lambda: self.fields(limit=lambda: self.word(LIMIT), used=self.f64, allowed=self.f64))
        return said | ({"budget": budget} if budget else {})

    def requested(self):
        return self.fields(
            call_id=self.text, kind=lambda: self.word(CALL), target=self.text, args=self.json,
            idempotency_key=self.text, recovery=lambda: self.word(RECOVERY), recovery_source=self.text,
            timeout_ms=self.uint, heartbeat_ms=self.maybe_uint, max_attempts=self.uint, retry_errors=self.bool, window_ms=self.maybe_uint,
            deadline=lambda: self.option(self.time), secrets=lambda: self.list(self.text), capabilities=lambda: self.list(self.text),
            approval=self.maybe_text, origin=self.origin, prompt=lambda: self.option(self.prompt),
            price=lambda: self.option(self.price))

    def reconciled(self):
        said = self.fields(call_id=self.text, attempt=self.uint, verdict=lambda: self.word(VERDICT))
        says, person = self.text(), self.option(lambda: self.person("operator"))
        said["result"] = json.loads(says) if said["verdict"] == "landed" else None
        said["why"] = says if said["verdict"] == "inconclusive" else None
        return said | {"by": person or "probe"}

    def answered(self):
        said = self.fields(call_id=self.text)
        return said | {{"given": "answer", "declined": "declined"}[self.word(ANSWER)]: self.text()}

    def revised(self):
        names = ["model", "system_prompt", "tools", "agents", "parameters"]
        return {"number": self.uint()} | {
            name: self.fields(since=self.uint, text=self.maybe_text) for name in names}


def call(**more):
    """A body that begins with a call's id."""
    return lambda b: b.fields(call_id=b.text, **{name: getattr(b, take) for name, take in more.items()})


KINDS = {
    1: Body.submitted, 2: Body.state_changed, 3: lambda b: {"message": b.message()},
    4: lambda b: b.fields(artifact=b.artifact, part=b.maybe_uint), 5: lambda b: b.fields(artifact=b.artifact, last=b.bool), 6: lambda b: {"metadata": b.object()},
    8: lambda b: {"reason": b.maybe_text()},
    9: lambda b: b.fields(approval_id=b.text, call_id=b.text, tool=b.text, args=b.json,
                          capabilities=lambda: b.list(b.text), origin=b.origin),
    10: lambda b: b.fields(approval_id=b.text, approved=b.bool, reason=b.maybe_text) | b.person("decided_by"),
    11: Body.turn_message, 12: lambda b: {"source": b.digest()},
    13: lambda b: b.fields(webhook=b.text, url=b.text, format=b.text, token=lambda: b.option(b.salted), scheme=b.maybe_text,
                           credentials=lambda: b.option(b.salted), after=b.uint),
    14: lambda b: {"webhook": b.text()}, 15: lambda b: b.fields(webhook=b.text, through=b.uint, over=b.bool),
    16: lambda b: b.fields(webhook=b.text, attempts=b.uint, error=b.text, gives_up=b.bool), 100: lambda b: {"session_id": b.text()},
    101: lambda b: {"message": b.model_message()}, 102: lambda b: b.fields(turn_id=b.text, task=b.text),
    103: Body.turn_message, 104: lambda b: {"turn_id": b.text()},
    105: lambda b: b.fields(turn_id=b.text, reason=b.text),
    109: lambda b: b.fields(strategy=lambda: b.word(STRATEGY), read_to=b.uint, removed=b.uint, summary=lambda: b.option(b.model_message),
                            call_id=b.maybe_text, before_tokens=b.uint, after_tokens=b.uint),
    110: lambda b: {"messages": b.uint()},
    111: call(target="text", read_to="uint", messages="uint", max_tokens="uint", digest="digest"),
    112: call(reply="json", usage="usage", dropped="maybe_text"),
    113: call(type="text", message="text", usage="usage"), 200: Body.requested,
    201: call(attempt="uint", epoch="uint", cause="text"), 202: call(attempt="uint", result="json", usage="usage"),
    203: call(attempt="uint", failure="failure"), 204: call(attempt="uint", after_ms="uint", limit="time_limit"),
    205: lambda b: b.fields(call_id=b.text, stage=lambda: b.word(STAGE)), 206: call(attempt="uint", why="text"),
    207: Body.reconciled, 208: lambda b: b.fields(call_id=b.text, reason=b.text) | b.person("by"),
    209: call(attempt="uint", succeeded="bool", said="text"), 210: call(attempt="uint", failure="failure", due="time"),
    211: call(attempt="uint", question="text"), 212: Body.answered, 213: call(attempt="uint", handle="text"),
    300: lambda b: b.fields(task=b.text, call_id=b.text, key=b.text, value=b.json),
    301: lambda b: b.fields(task=b.text, call_id=b.text, key=b.text),
    302: lambda b: b.fields(key=b.text, value=b.json), 303: lambda b: {"key": b.text()},
    304: lambda b: {"keys": b.uint()},
    400: lambda b: b.fields(epoch=b.uint, release=b.text, build=b.maybe_text,
                            agents=lambda: b.list(lambda: b.fields(name=b.text, revision=b.uint))),
    401: lambda b: b.fields(epoch=b.uint, reason=b.maybe_text),
    402: lambda b: b.fields(epoch=b.uint, agent=b.text, server=b.text, failure=b.maybe_text, tools=lambda: b.list(b.text),
                            left_out=lambda: b.list(lambda: b.fields(tool=b.text, why=b.text))), 500: Body.revised,
    600: lambda b: {"value": b.json()}, 601: lambda b: {"version": b.uint()},
    700: lambda b: b.fields(url=b.text, card=b.json), 701: lambda b: b.fields(url=b.text),
    702: lambda b: b.fields(url=b.text, ttl_ms=b.uint),
}


def compare(event, said):
    """The fault of one event, if there is one."""
    body = Body(event["body"])
    body.schema = event["schema"]
    try:
        found = KINDS[event["kind"]](body)
    except (KeyError, IndexError, ValueError) as error:
        return f"kind {event['kind']} cannot be read: {error!r}"
    if body.at != len(body.data):
        return f"kind {event['kind']} has {len(body.data) - body.at} bytes left"
    # In the order of the page too.
    if json.dumps(found) != json.dumps(said) and (found != said or list(found) != list(said)):
        return f"kind {event['kind']} says {json.dumps(said)}, but its body {json.dumps(found)}"
    return None


def main(paths):
    faults, kinds = [], set()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in list(file)[1:-1]:
                said = json.loads(line)
                events = reader.decode(bytes.fromhex(said["bytes"]))["events"]
                outside = {body["event"]: bytes.fromhex(body["body"]) for body in said["detached"]}
                for number, (event, shown) in enumerate(zip(events, said["events"])):
                    event["body"] = outside.get(number, event["body"])
                    kinds.add(event["kind"])
                    fault = compare(event, shown["payload"])
                    faults += [f"position {shown['position']}: {fault}"] if fault else []
    unmet = [word for words in TABLES for code, word in enumerate(words) if (id(words), code) not in MET]
    print(f"codes that do not occur: {' '.join(unmet) or 'none'}")
    print(*faults, f"kinds {','.join(map(str, sorted(kinds)))}: {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(main(sys.argv[1:]))
