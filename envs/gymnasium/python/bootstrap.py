"""First thing in a worker: dies with its parent, then takes its own modules from the socket.

Run as `python -c`, so that nothing of it lies on disk. Arguments: the file descriptors of the socket, the
lifeline and the shared memory.
"""
import sys

if sys.version_info < (3, 9):
    sys.exit("hotloop needs Python 3.9 or newer with Gymnasium, and %s is Python %d.%d; name another interpreter with "
             "env.python or HOTLOOP_PYTHON" % ((sys.executable,) + sys.version_info[:2]))

if sys.path[:1] == [""]:
    # The current folder comes back when Python's own modules and Gymnasium are there.
    del sys.path[0]

import json
import linecache
import os
import signal
import socket
import threading
import traceback
import types


def wait_for_parent(lifeline):
    """The parent holds the other end of this pipe: when it is gone, however it ended, so is this whole group."""
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def receive(channel):
    """One message: its length in four bytes, then JSON."""
    def exactly(size):
        parts = bytearray()
        while len(parts) < size:
            part = channel.recv(size - len(parts))
            if not part:
                raise ConnectionError
            parts += part
        return bytes(parts)

    return json.loads(exactly(int.from_bytes(exactly(4), "little")))


def install(sources):
    """Adds these modules to a package, so that tracebacks can show their lines."""
    package = sys.modules.setdefault("hotloop_worker", types.ModuleType("hotloop_worker"))
    package.__path__ = []
    for name, text in sources:
        full = "hotloop_worker." + name
        file = "<%s>" % full
        module = types.ModuleType(full)
        module.__file__ = file
        sys.modules[full] = module
        setattr(package, name, module)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), module.__dict__)


def serve():
    descriptors = [int(argument) for argument in sys.argv[1:4]]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    # Linux was told to see to it before this interpreter began. A thread cannot while native code holds the interpreter.
    if sys.platform != "linux":
        threading.Thread(target=wait_for_parent, args=descriptors[1:2], daemon=True).start()
    sys.argv = ["hotloop-worker"]
    channel = socket.socket(fileno=descriptors[0])
    recipe = receive(channel)
    install(recipe.pop("sources"))
    # Whether Gymnasium is there the first ones find out.
    rest = recipe.pop("sources_with_gymnasium")
    sys.modules["hotloop_worker.serve"].main(channel, receive, lambda: install(rest), descriptors[2], recipe)


def remove_shared_memory():
    """Lets the process of `multiprocessing` that knows what shared memory environments have left remove it, and end:
    killed with the others it could not. If children keep it waiting, the parent ends them first."""
    try:
        sys.modules["multiprocessing.resource_tracker"]._resource_tracker._stop()
    except Exception:
        # There is none.
        pass


parent = os.getppid()
try:
    serve()
except ConnectionError:
    pass
except BaseException:
    traceback.print_exc()
    if os.getppid() == parent:
        # It sees how this one ended, and ends the group.
        os._exit(1)
finally:
    remove_shared_memory()
    # With whatever its environments have started and left: nobody else may be there to do it.
    os.killpg(0, signal.SIGKILL)
