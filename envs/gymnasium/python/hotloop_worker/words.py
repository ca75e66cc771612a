"""What a worker tells: texts that are valid and have an end, whatever an environment put into them."""
import os
import sys
import traceback

# So many characters of what an error says are told, and of the code that it came from.
LONGEST = 4000
# So many calls, the innermost, and so many errors that one was raised from.
FRAMES, CAUSES = 6, 3


def told(error):
    """What an error says, and where it came from, without the worker's own lines."""
    try:
        text = one(error)
        for _ in range(CAUSES):
            # One that is raised from another hides what was being handled.
            error = error.__cause__ if error.__suppress_context__ else error.__context__
            if error is None:
                break
            text += "\nit came of " + one(error)
        return text
    except BaseException as another:
        # It may be for want of memory, or be an exception that cannot be written out.
        return "%s, of which nothing can be said (%s)" % (type(error).__name__, type(another).__name__)


def one(error):
    if type(error).__module__.startswith("hotloop_worker"):
        return start_of(str(error))
    said = start_of("".join(traceback.format_exception_only(type(error), error)).strip())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith(("<hotloop_worker", "<string>", "<frozen"))]
    if not frames:
        return said
    gymnasium = sys.modules.get("gymnasium")
    if hasattr(gymnasium, "error") and is_within(frames[-1].filename, os.path.dirname(gymnasium.__file__)):
        # What Gymnasium itself has to say needs no proof.
        if isinstance(error, gymnasium.error.Error):
            return said
        said += hint(error, said)
    lines = "".join(traceback.format_list(frames[-FRAMES:]))
    return said + "\nTraceback (most recent call last):\n" + end_of(lines).rstrip()


def is_within(file, folder):
    return file.startswith(os.path.join(folder, ""))


def hint(error, said):
    """What to do where Gymnasium itself has failed at what an environment is."""
    if isinstance(error, ValueError) and "values to unpack" in said:
        return "\nstep() is to return observation, reward, terminated, truncated and info, reset() observation and info"
    if isinstance(error, TypeError) and "reset()" in said and "unexpected keyword argument" in said:
        return "\nreset() is to take seed and options, by keyword"
    return ""


def start_of(text):
    surplus = len(text) - LONGEST
    return text if surplus <= 0 else "%s… (%d more characters)" % (text[:LONGEST], surplus)


def end_of(text):
    surplus = len(text) - LONGEST
    return text if surplus <= 0 else "(%d characters before) …%s" % (surplus, text[surplus:])


def shown(value):
    """A value's type and shape, or what it is if it is short, for messages."""
    if value is None:
        return "None"
    kind = type(value).__name__
    if hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), tuple) and value.shape:
        return "an array of shape %s of %s" % (tuple(value.shape), value.dtype)
    if isinstance(value, dict):
        return "a dict with the keys %s" % sorted(map(str, value))
    if isinstance(value, (tuple, list)):
        return "a %s of %d" % (kind, len(value))
    text = repr(value)
    return "%s (%s)" % (text if len(text) <= 200 else text[:200] + "…", kind)
