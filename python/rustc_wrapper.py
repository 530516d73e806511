#!/usr/bin/env python3
"""Calls rustc with identities of this repository's crates that do not depend on the folder in which it lies.

Cargo derives the identity (`-C metadata`) of a package outside of the workspace's root from its absolute path. All crates but
`poseidon-python` are such packages. The identity affects the names of symbols and so the order of functions. python/build sets
RUSTC_WRAPPER to this file.
"""

import hashlib
import os
import pathlib
import sys

REPOSITORY = str(pathlib.Path(__file__).resolve().parent.parent)


def stable(arguments):
    """The arguments with another identity, from all that distinguishes two builds of one package."""
    features = [value for flag, value in zip(arguments, arguments[1:]) if flag in ("--cfg", "--crate-type", "--target", "--crate-name")]
    package = [os.environ.get(name, "") for name in ("CARGO_PKG_NAME", "CARGO_PKG_VERSION")]
    identity = hashlib.sha256("\n".join([*package, *features]).encode()).hexdigest()[:16]
    return [f"metadata={identity}" if argument.startswith("metadata=") else argument for argument in arguments]


def main():
    rustc, *arguments = sys.argv[1:]
    folder = os.environ.get("CARGO_MANIFEST_DIR", "")
    if os.path.commonpath([REPOSITORY, folder or "/"]) == REPOSITORY:
        arguments = stable(arguments)
    os.execvp(rustc, [rustc, *arguments])


if __name__ == "__main__":
    main()
