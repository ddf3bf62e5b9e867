"""The licences of what is linked into the wheel, in one file.

``make licenses`` writes ``THIRD-PARTY-LICENSES.txt`` from the sources that cargo has
fetched, for every platform the release is built for. Of a choice of licences the first of
:data:`PREFERRED` is taken. Equal texts stand once, with the names of all crates they are for.

Source: the field ``license`` of each crate, an SPDX expression, and the files beside it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "THIRD-PARTY-LICENSES.txt"
WHEEL_CRATE = "kafkalite-python"

#: What the release workflow builds for.
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
)

#: The order in which a choice is made; anything else has to be looked at by a person first.
PREFERRED = ("Apache-2.0", "MIT", "BSD-3-Clause", "Zlib", "Unicode-3.0", "Apache-2.0-LLVM")

#: A phrase of each licence that no other one has, after white space was folded.
PHRASES = {
    "Apache-2.0": "Apache License Version 2.0",
    "MIT": "Permission is hereby granted, free of charge, to any person obtaining a copy",
    "BSD-3-Clause": "Redistribution and use in source and binary forms",
    "Zlib": "This software is provided 'as-is'",
    "Unicode-3.0": "UNICODE LICENSE V3",
}

#: Statically linked into every Rust program, and no crate of the lock file.
VENDOR = ROOT / "rust/broker/src/admin_http/console/vendor"

#: Copies of crates with a change of ours: they have no source in the lock file, and are not ours.
THIRD_PARTY = ROOT / "rust/third_party"

STANDARD_LIBRARY = """\
The Rust standard library is linked into the binary. It is dual-licensed under MIT and Apache-2.0
by the Rust project contributors; the text of Apache-2.0 stands below.
"""


class UnknownLicense(Exception):
    """A licence that is not in the list yet, or whose text the crate does not carry."""


@dataclass(frozen=True, order=True)
class Crate:
    """One dependency: what the lock file calls it, its licence, where its sources are."""

    name: str
    version: str
    expression: str
    folder: Path

    def __str__(self) -> str:
        """As the lock file says it."""
        return f"{self.name} {self.version}"


@dataclass(frozen=True, order=True)
class Vendored:
    """Code of others that lies in the repository: the console's libraries, without a crate."""

    name: str
    version: str
    expression: str
    text: Path

    def __str__(self) -> str:
        """As the file lists it."""
        return f"{self.name} {self.version}"


#: What the binary carries for the console. htm's file has preact in it.
VENDORED = (
    Vendored("htm", "3.1.1", "Apache-2.0", VENDOR / "LICENSE-htm"),
    Vendored("preact", "10", "MIT", VENDOR / "LICENSE-preact"),
    Vendored("uPlot", "1.6.32", "MIT", VENDOR / "LICENSE-uPlot"),
)


def metadata(platform: str) -> dict[str, Any]:
    """What cargo knows about the workspace on one platform, without asking the network."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    done = subprocess.run(
        [*command, "--filter-platform", platform], cwd=ROOT, check=True, capture_output=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def reachable(platform: str) -> list[dict[str, Any]]:
    """The packages that the binding needs on that platform at run time, our own included."""
    known = metadata(platform)
    packages = {package["id"]: package for package in known["packages"]}
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] == WHEEL_CRATE]
    seen: set[str] = set()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        if is_macro(packages[here]):
            # Its dependencies run in the compiler only, as it does.
            continue
        for dependency in nodes[here]["deps"]:
            # A kind of `None` is an ordinary dependency; the others build or test.
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return [packages[key] for key in seen]


def linked(platform: str) -> set[Crate]:
    """Other people's crates that are in the wheel of that platform."""
    return {
        Crate(one["name"], one["version"], one["license"], Path(one["manifest_path"]).parent)
        for one in reachable(platform)
        if not is_ours(one) and not is_macro(one)
    }


def is_ours(package: dict[str, Any]) -> bool:
    """Whether it is a crate of this repository, and no copy of another one's."""
    path = Path(package["manifest_path"])
    return package["source"] is None and not path.is_relative_to(THIRD_PARTY)


def is_macro(package: dict[str, Any]) -> bool:
    """Whether the crate runs in the compiler only."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def chosen(expression: str) -> list[str]:
    """The licences that apply: all parts of an AND, and of an OR the one we prefer.

    Raises:
        UnknownLicense: None of the choices is in :data:`PREFERRED`.
    """
    text = expression.replace("/", " OR ").replace("Apache-2.0 WITH LLVM-exception", "LLVM")
    picked: list[str] = []
    for part in text.split(" AND "):
        choices = [choice.strip(" ()") for choice in part.split(" OR ")]
        # The exception only permits more: its crates carry the plain Apache-2.0 as well.
        names = ["Apache-2.0" if choice == "LLVM" else choice for choice in choices]
        best = next((name for name in PREFERRED if name in names), None)
        if best is None:
            raise UnknownLicense(expression)
        picked.append(best)
    return picked


def texts(folder: Path) -> list[str]:
    """The licence files of a crate, and those of C sources that it carries."""
    names = re.compile(r"(licen[cs]e|copying|notice|unlicense)([-._].*)?", re.IGNORECASE)
    files = [path for path in folder.iterdir() if names.fullmatch(path.name) and path.is_file()]
    files += [path for path in folder.glob("*/LICENSE") if path.is_file()]
    return [path.read_text(errors="replace").strip() for path in sorted(files)]


def text_of(crate: Crate, licence: str) -> list[str]:
    """The texts of one licence of a crate; Apache-2.0's is the same for all.

    Raises:
        UnknownLicense: The crate carries no such text.
    """
    if licence == "Apache-2.0":
        return [(ROOT / "LICENSE").read_text().strip()]
    folded = {text: " ".join(text.split()) for text in texts(crate.folder)}
    found = [text for text in folded if PHRASES[licence] in folded[text]]
    if not found:
        raise UnknownLicense(f"{crate} says {crate.expression} and carries no text of {licence}")
    return found


def notices(crate: Crate) -> list[str]:
    """What Apache-2.0 asks to pass on."""
    files = [path for path in crate.folder.iterdir() if path.name.upper().startswith("NOTICE")]
    return [path.read_text(errors="replace").strip() for path in files]


def render(crates: set[Crate]) -> str:
    """The whole file."""
    users: dict[str, list[str]] = defaultdict(list)
    for crate in sorted(crates):
        for licence in chosen(crate.expression):
            for text in text_of(crate, licence):
                users[text].append(str(crate))
        for text in notices(crate):
            users[text].append(str(crate))
    for one in VENDORED:
        users[one.text.read_text().strip()].append(str(one))
    rule = "=" * 78
    rows = [f"{crate}  {crate.expression}" for crate in sorted(crates)]
    rows += [f"{one}  {one.expression}" for one in VENDORED]
    listed = "\n".join(sorted(rows, key=str.lower))
    head = f"What is linked into the wheel of kafkalite, and its licences.\n\n{STANDARD_LIBRARY}"
    parts = [f"{head}\n{listed}\n"]
    for text, names in sorted(users.items(), key=lambda pair: (-len(pair[1]), pair[1])):
        parts.append(f"{rule}\n{', '.join(names)}\n{rule}\n\n{text}\n")
    return "\n".join(parts)


def main() -> int:
    """Write the file. Exit status: 0, or 1 if a licence has to be looked at."""
    crates = set[Crate]().union(*(linked(platform) for platform in PLATFORMS))
    try:
        OUTPUT.write_text(render(crates))
    except UnknownLicense as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{OUTPUT.name}: {len(crates)} crates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
