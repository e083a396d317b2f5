"""Views and minimized forms of a2a-utils, for the comparison with ours: a sample is the first of its group, as ours is.

Reads cases from stdin, a list of {"area", "input"}, and prints each with "expected" or "error" beside it.
"""

import json
import random
import sys

from a2a.types import Artifact
from a2a_utils.artifacts import DataArtifacts, TextArtifacts, minimize_artifacts

random.choice = lambda group: group[0]


def given(case: dict, *names: str) -> dict:
    """The arguments that a case gives."""
    return {name: case[name] for name in names if case.get(name) is not None}


def artifacts(case: dict) -> list:
    """Minimized artifacts as JSON."""
    options = given(case, "character_limit", "minimized_object_string_length", "saved_file_paths", "text_tip", "data_tip")
    made = minimize_artifacts([Artifact.model_validate(artifact) for artifact in case["artifacts"]], **options)
    return [
        {"artifact_id": a.artifact_id, "description": a.description, "name": a.name, "parts": [vars(p) for p in a.parts]}
        for a in made
    ]


AREAS = {
    "summarize_values": lambda case: DataArtifacts.summarize_values(case["values"]),
    "summarize_table": lambda case: DataArtifacts.summarize_table(case["rows"]),
    "text_view": lambda case: TextArtifacts.view(
        case["text"], **given(case, "line_start", "line_end", "character_start", "character_end", "character_limit")
    ),
    "text_minimize": lambda case: TextArtifacts.minimize(case["text"], **given(case, "character_limit", "tip")),
    "data_view": lambda case: DataArtifacts.view(
        case["data"], **given(case, "json_path", "rows", "columns", "character_limit")
    ),
    "data_minimize": lambda case: DataArtifacts.minimize(
        case["data"], **given(case, "character_limit", "minimized_object_string_length", "tip")
    ),
    "minimize_artifacts": artifacts,
}


def answer(case: dict) -> dict:
    """A case with its answer."""
    try:
        return {**case, "expected": AREAS[case["area"]](case["input"])}
    except Exception as error:
        message = error.args[0] if isinstance(error, KeyError) else str(error)
        return {**case, "error": {"type": type(error).__name__, "message": message}}


print(json.dumps([answer(case) for case in json.load(sys.stdin)]))
