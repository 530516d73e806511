#!/usr/bin/env python3
"""Writes an OCI image of the command as a tar archive, without a daemon.

    image.py --binary FILE --version V --out FILE.tar [--epoch SECONDS] [--mirror URL] [--revision COMMIT]

The first layer has the Debian packages below, extracted by mmdebstrap with what they depend on. The second layer has the
command. Owners, times and the order of files are fixed, so that the same inputs give the same digest. The last line of
the output is the digest. Needs mmdebstrap, and root or user namespaces.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import posixpath
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

SUITE = "bookworm"
# What the command loads and calls: its libraries, ip and tc, and a shell and basic tools for hooks of Kubernetes.
DEBIAN_PACKAGES = ["libc6", "libelf1", "zlib1g", "libgcc-s1", "iproute2", "dash", "coreutils", "mount", "util-linux"]
# Nothing reads these in a container. The copyright files stay.
LEFT_OUT = ("var/cache", "var/lib/apt", "var/log", "usr/share/man", "usr/share/locale", "usr/share/bash-completion", "dev", "tmp")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Debian has these folders as links since version 12.
MERGED = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def merged(name):
    """The name in a system whose /bin, /lib and /sbin are links into /usr."""
    first = name.split("/", 1)[0]
    return f"usr/{name}" if first in MERGED else name


def base_entries(mirror, epoch):
    """Yields the files of the Debian packages: {name: (entry, data)}."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "base.tar"
        command = ["mmdebstrap", "--variant=extract", "--quiet", f"--include={','.join(DEBIAN_PACKAGES)}", SUITE, str(path), *([mirror] if mirror else [])]
        done = subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"image: mmdebstrap failed: {done.stderr.strip()}\nIt needs {mirror or 'a Debian mirror'}, and root or user namespaces.")
        entries = {}
        with tarfile.open(path) as archive:
            for entry in archive:
                name = posixpath.normpath(entry.name).lstrip("/")
                if name == "." or any(name == out or name.startswith(f"{out}/") for out in LEFT_OUT):
                    continue
                if name in MERGED or not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
                    continue
                if entry.islnk():
                    entry.linkname = merged(posixpath.normpath(entry.linkname))
                if entry.issym() and entry.linkname.startswith("/"):
                    entry.linkname = f"/{merged(entry.linkname[1:])}"
                data = archive.extractfile(entry).read() if entry.isfile() else None
                entries[merged(name)] = (entry, data)
    for link in MERGED[:4]:
        entries[link] = (symbolic_link(f"usr/{link}"), None)
    for name, mode in {"tmp": 0o1777, "dev": 0o755}.items():
        entries[name] = (directory(mode), None)
    entries.setdefault("usr/bin/sh", (symbolic_link("dash"), None))
    entries["etc/passwd"] = text_file("root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532::/:/usr/sbin/nologin\n")
    entries["etc/group"] = text_file("root:x:0:\nnonroot:x:65532:\n")
    return entries


def symbolic_link(target):
    entry = tarfile.TarInfo()
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
    return entry


def directory(mode):
    entry = tarfile.TarInfo()
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry


def text_file(text):
    entry = tarfile.TarInfo()
    entry.mode = 0o644
    return entry, text.encode()


def write_layer(entries, epoch):
    """Returns a layer as it is stored, and the digest of its uncompressed form."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        # Links come after the files that they name.
        for name, (entry, data) in sorted(entries.items(), key=lambda item: (item[1][0].islnk(), item[0])):
            entry.name, entry.size = name, len(data or b"")
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = min(int(entry.mtime) or epoch, epoch)
            entry.pax_headers = {}
            archive.addfile(entry, io.BytesIO(data) if data is not None else None)
    zipped = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, zipped, mtime=0) as file:
        file.write(raw.getvalue())
    return zipped.getvalue(), digest(raw.getvalue())


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def write_image(arguments):
    epoch = arguments.epoch
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    command = tarfile.TarInfo()
    command.mode, command.mtime = 0o755, epoch
    layers = [
        (write_layer(base_entries(arguments.mirror, epoch), epoch), f"Debian {SUITE}: {' '.join(DEBIAN_PACKAGES)}"),
        (write_layer({"usr/bin/poseidon": (command, arguments.binary.read_bytes())}, epoch), f"poseidon {arguments.version}"),
    ]
    architecture = ARCHITECTURES[os.uname().machine]
    labels = {
        "org.opencontainers.image.title": "poseidon",
        "org.opencontainers.image.version": arguments.version,
        "org.opencontainers.image.revision": arguments.revision,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.created": created,
    }
    blobs = {}

    def blob(data, media_type):
        blobs[digest(data)] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    config = {
        "architecture": architecture,
        "os": "linux",
        "created": created,
        # Parts that need root say so in their manifest.
        "config": {
            "Entrypoint": ["/usr/bin/poseidon"],
            "Env": ["PATH=/usr/sbin:/usr/bin"],
            "User": "65532:65532",
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id for (_, diff_id), _ in layers]},
        "history": [{"created": created, "created_by": "tools/packages/image.py", "comment": comment} for _, comment in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(as_json(config), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(data, LAYER) for (data, _), _ in layers],
        "annotations": labels,
    }
    described = blob(as_json(manifest), manifest["mediaType"])
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            {
                **described,
                "platform": {"architecture": architecture, "os": "linux"},
                "annotations": {"org.opencontainers.image.ref.name": f"localhost/poseidon:{arguments.version}"},
            }
        ],
    }
    files = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"}), "index.json": as_json(index)}
    files |= {f"blobs/{name.replace(':', '/')}": data for name, data in blobs.items()}
    with tarfile.open(arguments.out, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, epoch
            archive.addfile(entry, io.BytesIO(data))
    return described["digest"], sum(len(data) for data in blobs.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--mirror", help="of Debian packages; by default, that of mmdebstrap")
    parser.add_argument("--revision", default="unknown")
    arguments = parser.parse_args()
    name, size = write_image(arguments)
    print(f"image: digest {name}, {size} bytes in blobs")


if __name__ == "__main__":
    main()
