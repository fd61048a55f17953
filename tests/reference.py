#!/usr/bin/env python3
"""Lists public names without a comment, and dead links of READMEs.

A comment documents the code on its line and the lines after it, up to a blank line. The comment at the
top of a file also documents its first class, and the comment of a class the members that it names.
Self-explanatory declarations need no comment, and neither do names that C++ or another type of rowgrad
explains (the patterns below).

    reference.py BUILD    the build folder, with the XML of the reference
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

SELF_EXPLANATORY = re.compile(
    r"= (default|delete);|~\w+\(|\b(override|final)\b|struct \w+Options\b|friend \w+ \w+;|using (\w+) = .*\b\3;")
# Members of specialisations and of types whose members C++ prescribes; members of update rules, which RuleDefaults
# explains.
EXPLAINED_ELSEWHERE = re.compile(r"<|\b(PoolAllocator|Iterator|RuleDefaults)$")


def lines_of(path, cache={}):
    if path not in cache:
        cache[path] = path.read_text().split("\n")
    return cache[path]


def text_of(element):
    return "".join(text for kind in ("briefdescription", "detaileddescription")
                   for text in element.find(kind).itertext()).strip()


def is_documented(element, place, explanation=None):
    """Returns True if a comment documents an element of the XML. `place` is its (path, line); `explanation` is the
    comment of the class, for a member."""
    is_class = explanation is None
    if text_of(element) or not is_class and re.search(rf"\b{re.escape(element.findtext('name'))}\b", explanation):
        return True
    lines, number = lines_of(place[0]), place[1] - 1
    if "//" in lines[number] or SELF_EXPLANATORY.search(lines[number]):
        return True
    for before in reversed(lines[:number]):
        if not before.strip():
            # The comment at the top of a file documents its first class.
            return is_class and not any(re.match(r"class .*{", line) for line in lines[:number])
        if before.strip().startswith(("//", "template")) and "//" in before:
            return True
        if re.match(r" *(public|protected|private):", before):
            return False
    return False


def names(folder, headers):
    """Yields all public names of the reference: (name, whether it is documented, place)."""
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
                yield scope, is_documented(compound, place_of(compound)), place_of(compound)
            seen.add(compound.get("id"))
            types = [scope, *(base.text for base in compound.iter("basecompoundref") if base.text == "RuleDefaults")]
            explained = any(EXPLAINED_ELSEWHERE.search(type) for type in types)
            for member in compound.iter("memberdef"):
                if member.get("prot") == "private" or member.get("id") in seen:
                    continue
                seen.add(member.get("id"))
                name, place = f"{scope}::{member.findtext('name')}", place_of(member)
                documented = explained or is_documented(member, place, text_of(compound))
                yield name, documented, place
                for value in member.iter("enumvalue"):
                    in_one_line = "}" in lines_of(place[0])[place[1] - 1]
                    yield f"{name}::{value.findtext('name')}", text_of(value) or in_one_line and documented, place


def dead_links(root):
    """Yields the links of all READMEs to a file or heading that does not exist."""
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
    missing = [f"{path.relative_to(build / 'include/rowgrad')}:{line}: {name}"
               for name, documented, (path, line) in all_names if not documented]
    dead = list(dead_links(root))
    print(f"{len(missing)} of the {len(all_names)} names of the reference have no comment", *missing, sep="\n  ")
    print(f"{len(dead)} links of READMEs are dead", *dead, sep="\n  ")
    return bool(missing or dead)


if __name__ == "__main__":
    sys.exit(main())
