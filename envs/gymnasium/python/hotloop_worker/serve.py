"""The worker's side of the conversation with its parent."""
import faulthandler
import gc
import json
import socket
import sys


def say(channel, kind, message):
    """Sends a message: its kind, its length in four bytes, JSON."""
    text = json.dumps(message).encode()
    channel.sendall(kind + len(text).to_bytes(4, "little") + text)


def main(channel, receive, install, memory, recipe):
    faulthandler.enable(all_threads=False)
    try:
        lanes = prepare(channel, receive, install, memory, recipe)
    except BaseException as error:
        # Why there is no worker. If nobody is there to be told, the end is the same.
        say(channel, b"x", told_plainly(error))
        return
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
            draw(channel, lanes, int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "little"))
        else:
            lanes.close()
            return


def prepare(channel, receive, install, memory, recipe):
    """Makes the first environment, agrees on the layout of its spaces, makes the others."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("%s; install Gymnasium (%s -m pip install gymnasium), or name an interpreter that has it "
                          "with env.python or HOTLOOP_PYTHON" % (error, sys.executable)) from None
    del gymnasium
    install()
    from hotloop_worker import lanes, shared, spaces
    make = lanes.maker(recipe)
    first = make()
    masked = False
    if recipe["probe"]:
        _, info = first.reset(seed=0)
        masked = recipe["action_mask"] and lanes.has_mask(first, info)
    say(channel, b"h", {
        "observation": spaces.describe(first.observation_space, ["observation"], recipe["image"]),
        "action": spaces.describe(first.action_space, ["action"], "none", masked),
        "fps": first.metadata.get("render_fps") or 30,
    })
    arrays = shared.Shared(memory, receive(channel), recipe["lanes"])
    return lanes.Lanes(make, first, recipe["lanes"], arrays, recipe["drawn"])


def told_plainly(error):
    lanes = sys.modules.get("hotloop_worker.lanes")
    if lanes and hasattr(lanes, "told"):
        return lanes.told(error)
    return "%s: %s" % (type(error).__name__, error)


def draw(channel, lanes, lane):
    """Sends the picture of a lane: width and height in four bytes each, then its pixels."""
    import numpy as np
    try:
        frame = lanes.envs[lane].render()
        pixels = np.ascontiguousarray(frame, dtype=np.uint8)
        if pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError("render() gave %s, and no array of height, width and 3" % (pixels.shape,))
    except BaseException as error:
        say(channel, b"!", told_plainly(error))
        return
    height, width = pixels.shape[:2]
    channel.sendall(b"p" + width.to_bytes(4, "little") + height.to_bytes(4, "little"))
    channel.sendall(pixels.data.cast("B"))
