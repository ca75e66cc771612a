"""Reads a checkpoint of hotloop: its tensors as numpy arrays, and the numbers of its manifest."""

import json
import pathlib

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U64": np.uint64, "U8": np.uint8}


def read(run, name="last"):
    """Tensors by name, and the manifest's state. A safetensors file is the length of a JSON header, that header, and
    the tensors' bytes, little-endian and row-major; the header tells each tensor's type, shape and place in them."""
    folder = pathlib.Path(run, "checkpoints")
    manifest = json.loads((folder / f"{name}.json").read_text())
    raw = (folder / manifest["tensors"]["file"]).read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for key, entry in header.items():
        first, last = entry["data_offsets"]
        tensors[key] = np.frombuffer(raw[start + first : start + last], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, manifest["state"]
