#!/usr/bin/python3
"""Encodes the strings of gpt2_bpe_cases.json again, and The Verdict into the-verdict.gpt2.ids.

  ROWGRAD_DATA=FOLDER tests/golden/make_gpt2_bpe_cases.py     FOLDER has encoder.json, vocab.bpe and the-verdict.txt

Needs Debian's python3-regex. Follows the definition of GPT-2's tokenizer: a regular expression splits the text into
pieces, and in each piece the merge of lowest rank is applied until none is left. The strings are random combinations
of words, spaces and characters of many scripts. Source of the pattern and the byte encoding: Radford et al., Language
Models are Unsupervised Multitask Learners, 2019, section 2.2.
"""
import json
import os
import pathlib

import regex

import lines

data = pathlib.Path(os.environ["ROWGRAD_DATA"])
ids = json.loads((data / "encoder.json").read_text(encoding="utf-8"))
merges = [tuple(line.split()) for line in (data / "vocab.bpe").read_text(encoding="utf-8").splitlines()[1:] if line]
ranks = {pair: rank for rank, pair in enumerate(merges)}
pieces = regex.compile(r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
# The files represent each byte by a character: a printable byte by itself, the others by characters from 256 on.
printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
others = [byte for byte in range(256) if byte not in printed]
character = {byte: chr(byte) for byte in printed} | {byte: chr(256 + n) for n, byte in enumerate(others)}


def encode(text):
    result = []
    for piece in pieces.findall(text):
        parts = [character[byte] for byte in piece.encode()]
        while True:
            pairs = [pair for pair in zip(parts, parts[1:]) if pair in ranks]
            if not pairs:
                break
            first = min(pairs, key=ranks.get)
            merged = []
            for part in parts:
                if merged and (merged[-1], part) == first:
                    merged[-1] += part
                else:
                    merged.append(part)
            parts = merged
        result += [ids[part] for part in parts]
    return result


here = pathlib.Path(__file__).parent
cases = json.loads((here / "gpt2_bpe_cases.json").read_text(encoding="utf-8"))
lines.write(here / "gpt2_bpe_cases.json", [{"text": case["text"], "ids": encode(case["text"])} for case in cases])
verdict = (data / "the-verdict.txt").read_text(encoding="utf-8")
(here / "the-verdict.gpt2.ids").write_text(" ".join(map(str, encode(verdict))) + "\n")
