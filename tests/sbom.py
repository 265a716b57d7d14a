"""Writes what the library is made of as CycloneDX JSON, from Cargo.lock alone, and checks the licences.

    tests/sbom.py [--features FEATURES] > arraybridge.cdx.json
    tests/sbom.py --check

The same source gives the same bytes. `--check` writes nothing: it looks at every dependency, those of the
tests and the build too, against the licences in deny.toml.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def metadata(features: list[str]) -> dict:
    host = re.search(r"^host: (.*)$", subprocess.check_output(["rustc", "-vV"], text=True), re.M)[1]
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={host}", *features]
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def reachable(graph: dict, kinds: set) -> dict[str, list[str]]:
    """Packages that the library needs by dependencies of these kinds, and which of them each needs."""
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    found: dict[str, list[str]] = {}
    waiting = [graph["resolve"]["root"]]
    while waiting:
        package = waiting.pop()
        if package in found:
            continue
        needs = [d["pkg"] for d in nodes[package]["deps"] if any(k["kind"] in kinds for k in d["dep_kinds"])]
        found[package] = sorted(needs)
        waiting += needs
    return found


def bill(features: list[str]) -> dict:
    graph = metadata(features)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    packages = {package["id"]: package for package in graph["packages"]}
    needed = reachable(graph, {None})

    def name(package: dict) -> str:
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(package: dict, kind: str = "library") -> dict:
        entry = {
            "type": kind,
            "bom-ref": name(package),
            "name": package["name"],
            "version": package["version"],
            "purl": name(package),
            "licenses": [{"expression": package["license"]}],
        }
        if checksum := checksums[package["name"], package["version"]]:
            entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return entry

    root = packages[graph["resolve"]["root"]]
    others = sorted((packages[id] for id in needed if id != root["id"]), key=name)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(root)},
        "components": [component(package) for package in others],
        "dependencies": [
            {"ref": name(packages[id]), "dependsOn": [name(packages[need]) for need in needs]}
            for id, needs in sorted(needed.items(), key=lambda item: name(packages[item[0]]))
        ],
    }


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be satisfied by licences that are allowed."""
    tokens = re.findall(r"[()]|[^\s()/]+|/", expression)

    def either() -> bool:
        holds = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            right = both()
            holds = holds or right
        return holds

    def both() -> bool:
        holds = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            right = one()
            holds = holds and right
        return holds

    def one() -> bool:
        token = tokens.pop(0)
        if token == "(":
            holds = either()
            tokens.pop(0)
            return holds
        if tokens and tokens[0] == "WITH":
            token = " ".join([token, tokens.pop(0), tokens.pop(0)])
        return token in allowed

    return either()


def check() -> list[str]:
    rules = tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]
    extra = {rule["crate"]: set(rule["allow"]) for rule in rules.get("exceptions", [])}
    refused = []
    for package in metadata(["--all-features"])["packages"]:
        allowed = set(rules["allow"]) | extra.get(package["name"], set())
        if not is_allowed(package["license"] or "none", allowed):
            refused.append(f"{package['name']} {package['version']}: {package['license']}")
    return refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", help="as cargo's")
    parser.add_argument("--check", action="store_true", help="check the licences instead")
    arguments = parser.parse_args()
    if arguments.check:
        refused = check()
        sys.exit("\n".join(["licences that deny.toml does not allow:", *refused]) if refused else 0)
    features = ["--features", arguments.features] if arguments.features else []
    json.dump(bill(features), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
