"""The worker's side of the conversation with its parent."""
import faulthandler
import gc
import json
import math
import os
import socket
import sys

from hotloop_worker.words import shown, told


def say(channel, kind, message):
    """Sends a message: its kind, its length in four bytes, JSON. Halves of characters become question marks."""
    text = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    channel.sendall(kind + len(text).to_bytes(4, "little") + text)


def main(channel, receive, install, memory, recipe):
    faulthandler.enable(all_threads=False)
    try:
        converse(channel, receive, install, memory, recipe)
    except ConnectionError:
        raise
    except BaseException as error:
        # Why there is no worker, or none any more.
        say(channel, b"x", told(error))


def converse(channel, receive, install, memory, recipe):
    lanes = prepare(channel, receive, install, memory, recipe)
    first = True
    while True:
        command = channel.recv(1)
        if command == b"t":
            lanes.turn()
            if lanes.faults:
                say(channel, b"!", lanes.faults)
            else:
                channel.send(b".")
            if first:
                # What there is after the first reset is there to stay: later collections need not look at it.
                gc.collect()
                gc.freeze()
                first = False
        elif command == b"d":
            draw(channel, lanes, int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "little"))
        else:
            lanes.close()
            return


def prepare(channel, receive, install, memory, recipe):
    """Makes the first environment and agrees on the layout of its spaces."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("%s; install Gymnasium (%s -m pip install gymnasium), or name an interpreter that has it "
                          "with env.python or HOTLOOP_PYTHON" % (error, sys.executable)) from None
    del gymnasium
    # Modules of the user's may lie in the current folder. What is there is not to be taken for Python's own before.
    sys.path.insert(0, os.getcwd())
    install()
    from hotloop_worker import lanes, results, shared, spaces
    make = lanes.maker(recipe)
    first = make()
    masked = False
    if recipe["probe"]:
        _, info = results.of_reset(first.reset(seed=0))
        masked = recipe["action_mask"] and results.has_mask(first.action_space, info)
    say(channel, b"h", {
        "observation": spaces.describe(first.observation_space, ["observation"], recipe["image"]),
        "action": spaces.describe(first.action_space, ["action"], "none", masked),
        "fps": frames_per_second(first),
    })
    if recipe["probe"]:
        first.close()
    arrays = shared.Shared(memory, receive(channel), recipe["lanes"])
    return lanes.Lanes(make, first, recipe["lanes"], arrays, recipe)


def frames_per_second(env):
    fps = (env.metadata or {}).get("render_fps")
    return fps if isinstance(fps, (int, float)) and math.isfinite(fps) and fps > 0 else 30


def draw(channel, lanes, lane):
    """Sends the picture of a lane: width and height in four bytes each, then its pixels."""
    import numpy as np
    try:
        given = lanes.envs[lane].render()
        if given is None:
            raise ValueError("render() returned None; the environment was made with render_mode = %r, and pictures come "
                             "with \"rgb_array\"" % (lanes.envs[lane].render_mode,))
        frame = np.asarray(given)
        if frame.ndim != 3 or frame.shape[2] != 3:
            raise ValueError("render(): expected an array of height, width and 3, got %s" % shown(given))
        if frame.dtype != np.uint8 and (frame.dtype.kind not in "iu" or np.any(frame < 0) or np.any(frame > 255)):
            raise ValueError("render(): expected whole numbers from 0 to 255, got %s from %s to %s"
                             % (shown(frame), frame.min(initial=0), frame.max(initial=0)))
        pixels = np.ascontiguousarray(frame, dtype=np.uint8)
    except BaseException as error:
        say(channel, b"n", told(error))
        return
    height, width = pixels.shape[:2]
    channel.sendall(b"p" + width.to_bytes(4, "little") + height.to_bytes(4, "little"))
    channel.sendall(pixels.data.cast("B"))
