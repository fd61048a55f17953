#!/usr/bin/env python3
"""Lists the public names that no comment of their header is about, and links of READMEs that lead nowhere.

A comment is about what stands beside it, and about what follows up to a blank line; the one at the top
of a file is about its first class, too, and that of a class about members that it names. What says by
itself what it is needs none, nor does what C++ or another type of rowgrad explains (the patterns below).

    reference.py BUILD    where the reference was made, with its XML
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

SPEAKS_FOR_ITSELF = re.compile(
    r"= (default|delete);|~\w+\(|\b(override|final)\b|struct \w+Options\b|friend \w+ \w+;|using (\w+) = .*\b\3;")
# Members of specialisations, of types that C++ demands them of, and of update rules, as RuleDefaults explains them.
EXPLAINED_ELSEWHERE = re.compile(r"<|\b(PoolAllocator|Iterator|RuleDefaults)$")


def lines_of(path, cache={}):
    if path not in cache:
        cache[path] = path.read_text().split("\n")
    return cache[path]


def text_of(element):
    return "".join(text for kind in ("briefdescription", "detaileddescription")
                   for text in element.find(kind).itertext()).strip()


def is_said(element, place, explanation=None):
    """Whether a comment is about an element of the XML at its place, (path, line). A member has that of its
    class as `explanation`."""
    is_class = explanation is None
    if text_of(element) or not is_class and re.search(rf"\b{re.escape(element.findtext('name'))}\b", explanation):
        return True
    lines, number = lines_of(place[0]), place[1] - 1
    if "//" in lines[number] or SPEAKS_FOR_ITSELF.search(lines[number]):
        return True
    for before in reversed(lines[:number]):
        if not before.strip():
            # The first class of a file is what the comment at its top is about.
            return is_class and not any(re.match(r"class .*{", line) for line in lines[:number])
        if before.strip().startswith(("//", "template")) and "//" in before:
            return True
        if re.match(r" *(public|protected|private):", before):
            return False
    return False


def names(folder, headers):
    """All public names of the reference, each with whether a comment is about it, and its place."""
    seen = set()
    for file in sorted(folder.glob("*.xml")):
        for compound in xml.parse(file).iter("compounddef"):
            kind, scope = compound.get("kind"), compound.findtext("compoundname")
            if compound.get("prot") == "private" or kind not in ("class", "struct", "union", "concept", "namespace"):
                continue

            def place_of(element):
                place = element.find("location")
                return headers / place.get("file"), int(place.get("line"))

            if kind != "namespace" and compound.get("id") not in seen:
                yield scope, is_said(compound, place_of(compound)), place_of(compound)
            seen.add(compound.get("id"))
            types = [scope, *(base.text for base in compound.iter("basecompoundref") if base.text == "RuleDefaults")]
            explained = any(EXPLAINED_ELSEWHERE.search(type) for type in types)
            for member in compound.iter("memberdef"):
                if member.get("prot") == "private" or member.get("id") in seen:
                    continue
                seen.add(member.get("id"))
                name, place = f"{scope}::{member.findtext('name')}", place_of(member)
                said = explained or is_said(member, place, text_of(compound))
                yield name, said, place
                for value in member.iter("enumvalue"):
                    in_one_line = "}" in lines_of(place[0])[place[1] - 1]
                    yield f"{name}::{value.findtext('name')}", text_of(value) or in_one_line and said, place


def dead_links(root):
    """The links of all READMEs that lead to no file, or to no heading of one."""
    def headings(path):
        return {re.sub(r"[^a-z0-9 _-]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
                for line in path.read_text().split("\n") if line.startswith("#")}
    for page in sorted({root / "README.md", *root.glob("*/*.md"), *root.glob("*/*/README.md")}):
        for target in re.findall(r"\]\(([^() ]+)\)", page.read_text()):
            if "://" in target:
                continue
            file, _, heading = target.partition("#")
            path = page.parent / file if file else page
            if not path.exists() or heading and heading not in headings(path):
                yield f"{page.relative_to(root)}: {target}"


def main():
    build = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parent.parent
    all_names = list(names(build / "reference/xml", build / "include"))
    unsaid = [f"{path.relative_to(build / 'include/rowgrad')}:{line}: {name}"
              for name, said, (path, line) in all_names if not said]
    dead = list(dead_links(root))
    print(f"The reference has {len(all_names)} names, {len(unsaid)} of which no comment is about", *unsaid, sep="\n  ")
    print(f"{len(dead)} links of READMEs lead nowhere", *dead, sep="\n  ")
    return bool(unsaid or dead)


if __name__ == "__main__":
    sys.exit(main())
