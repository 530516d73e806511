"""Finds import cycles between sibling modules of each crate: `python3 .ci/module_cycles.py SRC...`.

A module depends on a sibling if any file below it names a path into the sibling: `use` declarations, paths in
expressions, and names that the common parent re-exports from the sibling. Test modules do not count.
"""

import re
import sys
from pathlib import Path


def strip(text: str) -> str:
    """Removes comments, strings and `#[cfg(test)]` modules at the end of a file."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    return re.sub(r"#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", "", text, flags=re.S)


def expand(tree: str) -> list[list[str]]:
    """Expands the tree of a `use` declaration into paths."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path = re.split(r"\s+as\s+", tree)[0]
        return [[part.strip() for part in path.split("::") if part.strip()]]
    prefix = [part.strip() for part in tree[:brace].split("::") if part.strip()]
    depth, start, parts = 0, brace + 1, []
    for index in range(brace, len(tree)):
        if tree[index] == "{":
            depth += 1
        elif tree[index] == "}":
            depth -= 1
            if depth == 0:
                parts.append(tree[start:index])
                break
        elif tree[index] == "," and depth == 1:
            parts.append(tree[start:index])
            start = index + 1
    return [prefix + rest for part in parts if part.strip() for rest in expand(part)]


def module_of(file: Path, src: Path) -> tuple[str, ...]:
    parts = file.relative_to(src).with_suffix("").parts
    if parts[-1] in ("lib", "main") and len(parts) == 1:
        return ()
    return parts[:-1] if parts[-1] == "mod" else parts


def absolute(path: list[str], module: tuple[str, ...], children: set[str]) -> tuple[str, ...] | None:
    """The path from the crate's root, or None for a path into another crate."""
    base = list(module)
    if path[0] == "crate":
        return tuple(path[1:])
    if path[0] in ("self", "super"):
        rest = list(path)
        while rest and rest[0] in ("self", "super"):
            if rest.pop(0) == "super" and base:
                base.pop()
        return tuple(base + rest)
    if path[0] in children:
        return tuple(base + path)
    return None


def find_cycles(src: Path) -> tuple[int, list[str]]:
    files = {module_of(f, src): strip(f.read_text()) for f in sorted(src.rglob("*.rs"))}
    children: dict[tuple[str, ...], set[str]] = {module: set() for module in files}
    for module in files:
        for depth in range(len(module)):
            children.setdefault(module[:depth], set()).add(module[depth])
    paths: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    reexports: dict[tuple[str, ...], dict[str, str]] = {}
    for module, text in files.items():
        found = paths.setdefault(module, set())
        for public, tree in re.findall(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", text):
            for path in expand(tree):
                target = absolute(path, module, children.get(module, set()))
                if target is None:
                    continue
                found.add(target)
                if public and target[: len(module)] == module and len(target) > len(module) + 1:
                    reexports.setdefault(module, {})[target[-1]] = target[len(module)]
        for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", text):
            target = absolute(path.split("::"), module, set())
            if target:
                found.add(target)
    cycles = []
    for parent, siblings in children.items():
        edges: dict[str, set[str]] = {name: set() for name in siblings}
        for module, targets in paths.items():
            if module[: len(parent)] != parent or len(module) == len(parent):
                continue
            own = module[len(parent)]
            for target in targets:
                if target[: len(parent)] != parent or len(target) == len(parent):
                    continue
                name = target[len(parent)]
                name = name if name in siblings else reexports.get(parent, {}).get(name, "")
                if name in siblings and name != own:
                    edges[own].add(name)
        cycles += [" -> ".join([*parent, ""]) + c for c in circular(edges)]
    return len(files), cycles


def circular(edges: dict[str, set[str]]) -> list[str]:
    """One line for each set of nodes that reach each other."""
    reach = {node: set(out) for node, out in edges.items()}
    changed = True
    while changed:
        changed = False
        for node, out in reach.items():
            more = set().union(*(reach[n] for n in out)) - out if out else set()
            if more:
                out |= more
                changed = True
    groups = {frozenset(n for n in edges if n in reach[node] and node in reach[n]) for node in edges}
    return [", ".join(sorted(group)) for group in groups if len(group) > 1]


def main(sources: list[str]) -> int:
    modules, status = 0, 0
    for source in sources:
        count, cycles = find_cycles(Path(source))
        modules += count
        for cycle in cycles:
            print(f"direction: {source}: these modules import each other: {cycle}", file=sys.stderr)
            status = 1
    if status == 0:
        print(f"direction: {modules} modules, no import cycle between siblings")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
