"""The worker's side of the conversation with its parent."""
import faulthandler
import gc
import json
import mmap
import os
import sys

import numpy as np


class Shared:
    """Arrays in the memory that both processes see."""

    def __init__(self, descriptor, layout, lanes):
        memory = mmap.mmap(descriptor, layout["size"])

        def array(name, dtype, columns=None):
            shape = (lanes,) if columns is None else (lanes, columns)
            return np.ndarray(shape, dtype, buffer=memory, offset=layout["offsets"][name])

        self.at = memoryview(np.ndarray((1,), np.uint64, buffer=memory, offset=0)).cast("B").cast("Q")
        self.commands = array("commands", np.uint8)
        # Items of a memoryview are plain Python numbers, which NumPy's are not.
        self.seeds = memoryview(array("seeds", np.uint64))
        self.rewards = memoryview(array("rewards", np.float64))
        self.ends = memoryview(array("ends", np.uint8))
        self.actions = array("actions", np.uint8, layout["action"]["record"])
        self.observations = array("observations", np.uint8, layout["observation"]["record"])
        self.masks = array("masks", np.uint8, layout["mask"]) if layout["mask"] else None
        self.action_leaves = layout["action"]["leaves"]
        self.observation_leaves = layout["observation"]["leaves"]


def say(channel, kind, message):
    """Sends a message: its kind, its length in four bytes, JSON."""
    text = json.dumps(message).encode()
    channel.sendall(kind + len(text).to_bytes(4, "little") + text)


def main(channel, receive, memory, recipe):
    faulthandler.enable(all_threads=False)
    try:
        lanes = prepare(channel, receive, memory, recipe)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        refuse(channel, error)
    gc.collect()
    gc.freeze()
    channel.sendall(b"r")
    while True:
        command = channel.recv(1)
        if command == b"t":
            lanes.turn()
            if lanes.faults:
                say(channel, b"!", lanes.faults)
            else:
                channel.send(b".")
        elif command == b"d":
            draw(channel, lanes, int.from_bytes(channel.recv(4, 0x100), "little"))
        else:
            lanes.close()
            os._exit(0)


def prepare(channel, receive, memory, recipe):
    """Makes the first environment, agrees on the layout of its spaces, makes the others."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("%s; install Gymnasium: %s -m pip install gymnasium" % (error, sys.executable)) from None
    del gymnasium
    from hotloop_worker import lanes, spaces
    make = lanes.maker(recipe)
    first = make()
    _, info = first.reset(seed=recipe["seed"])
    masked = recipe["action_mask"] and lanes.has_mask(first, info)
    say(channel, b"h", {
        "observation": spaces.describe(first.observation_space, ["observation"], recipe["image"]),
        "action": spaces.describe(first.action_space, ["action"], "none", masked),
        "fps": first.metadata.get("render_fps") or 30,
    })
    shared = Shared(memory, receive(channel), recipe["lanes"])
    return lanes.Lanes(make, first, recipe["lanes"], shared, recipe["drawn"])


def refuse(channel, error):
    """Says why there is no worker, and ends."""
    say(channel, b"x", told_plainly(error))
    os._exit(1)


def told_plainly(error):
    lanes = sys.modules.get("hotloop_worker.lanes")
    if lanes and hasattr(lanes, "told"):
        return lanes.told(error)
    return "%s: %s" % (type(error).__name__, error)


def draw(channel, lanes, lane):
    """Sends the picture of a lane: width and height in four bytes each, then its pixels."""
    try:
        frame = lanes.envs[lane].render()
        pixels = np.ascontiguousarray(frame, dtype=np.uint8)
        if pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError("render() gave %s, and no array of height, width and 3" % (pixels.shape,))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        say(channel, b"!", told_plainly(error))
        return
    height, width = pixels.shape[:2]
    channel.sendall(b"p" + width.to_bytes(4, "little") + height.to_bytes(4, "little"))
    channel.sendall(pixels.data.cast("B"))
