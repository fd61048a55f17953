"""Writes golden files as JSON in which each array of numbers is one line, however deeply it is nested."""

import json


def in_lines(value, indent=""):
    """Returns the JSON of a value. Values that fit into a line, and values without objects, are one line."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) + len(indent) <= 100 or "{" not in text:
        return text
    inner = indent + " "
    if isinstance(value, dict):
        entries = [f"{inner}{json.dumps(key)}: {in_lines(entry, inner)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + in_lines(entry, inner) for entry in value) + f"\n{indent}]"


def write(path, value):
    path.write_text(in_lines(value) + "\n", encoding="utf-8")
