"""Executes notebooks and writes them, with their outputs, to a folder.

python/tests/notebooks.py docs/notebooks/*.ipynb --out FOLDER
"""

import argparse
import base64
import json
import pathlib
import time

import nbformat
from nbclient import NotebookClient

parser = argparse.ArgumentParser()
parser.add_argument("notebooks", nargs="+", type=pathlib.Path)
parser.add_argument("--out", required=True, type=pathlib.Path)
arguments = parser.parse_args()
arguments.out.mkdir(parents=True, exist_ok=True)
all_pictures = 0
for path in arguments.notebooks:
    notebook = nbformat.read(path, as_version=4)
    if any(cell.get("outputs") for cell in notebook.cells):
        raise SystemExit(f"{path} has outputs; store notebooks without them")
    began = time.monotonic()
    NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
    nbformat.write(notebook, arguments.out / path.name)
    pictures = 0
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        for kind, suffix in (("image/png", "png"), ("image/svg+xml", "svg")):
            if kind in data:
                picture = arguments.out / f"{path.stem}-{pictures}.{suffix}"
                content = data[kind]
                picture.write_bytes(base64.b64decode(content) if suffix == "png" else content.encode())
                pictures += 1
    if not pictures:
        raise SystemExit(f"{path} shows no picture")
    print(f"notebook: {path.name}: {pictures} pictures in {time.monotonic() - began:.0f} s", flush=True)
    all_pictures += pictures
print(json.dumps({"test": "python", "notebooks": len(arguments.notebooks), "pictures": all_pictures}))
