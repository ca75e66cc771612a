"""Gymnasium's spaces as hotloop's, and values of them written to and read from records of bytes."""
import operator

import gymnasium
import numpy as np

from hotloop_worker.words import shown

# What each element type is stored as.
STORED = {
    "bool": "uint8", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint16": "int32", "uint32": "int64", "uint64": "int64",
    "float16": "float32", "float32": "float32", "float64": "float64",
}
LARGEST = float(2**63)
# Choices are stored as indices of 32 bits.
CHOICES = 2**31 - 1
# Deeper than this a message could not be read.
DEEPEST = 32


class Unsupported(Exception):
    """A space that hotloop has no equal of."""


def describe(space, path, image, masked=False):
    """The space as JSON. `image` says where channels are: "auto", "chw", "hwc" or "none"."""
    spaces = gymnasium.spaces
    if len(path) > DEEPEST:
        raise Unsupported("%s: spaces are nested more than %d deep; flatten them with "
                          'env.wrappers=["gymnasium.wrappers:FlattenObservation"], or a wrapper of yours'
                          % (where(path[:3] + ["…"]), DEEPEST))
    if isinstance(space, spaces.Box):
        stored = STORED.get(space.dtype.name)
        if stored is None:
            raise Unsupported("%s: elements of type %s cannot be stored" % (where(path), space.dtype))
        shape, layout = picture(space, image)
        return {"kind": "box", "shape": shape, "dtype": stored, "image": layout,
                "low": bound(space.low), "high": bound(space.high)}
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) and np.max(sizes_of(space), initial=0) > CHOICES:
        raise Unsupported("%s: %s has more than %d choices" % (where(path), space, CHOICES))
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start), "masked": masked}
    if isinstance(space, spaces.MultiDiscrete):
        start = getattr(space, "start", np.zeros_like(space.nvec))
        return {"kind": "multi_discrete", "sizes": space.nvec.ravel().tolist(),
                "start": np.ravel(start).tolist(), "masked": masked}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "multi_binary", "n": int(np.prod(space.shape))}
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "entries": [[str(key), describe(part, path + [key], image)]
                                            for key, part in entries(space)]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "tuple", "items": [describe(part, path + [i], image)
                                           for i, part in enumerate(space.spaces)]}
    kind = type(space).__name__
    if not type(space).__module__.startswith("gymnasium."):
        raise Unsupported("%s: expected one of gymnasium.spaces, got a %s.%s"
                          % (where(path), type(space).__module__, kind))
    raise Unsupported(
        "%s: hotloop has no %s space; put a wrapper around the environment (env.wrappers) that turns it into Box, "
        "Discrete, MultiDiscrete, MultiBinary, Dict or Tuple" % (where(path), kind))


def entries(space):
    """Keys and parts of a Dict space, in an order that depends on nothing else: spaces that differ in it are equal."""
    return sorted(space.spaces.items(), key=lambda entry: str(entry[0]))


def sizes_of(space):
    """How many choices there are, of each kind."""
    return [int(space.n)] if isinstance(space, gymnasium.spaces.Discrete) else np.ravel(space.nvec).tolist()


def where(path):
    """The name of a part of a space, for messages."""
    return "/".join(str(part) for part in path)


def bound(values):
    """One number if all are the same; none for infinite ones, which JSON cannot write."""
    if values.size and np.all(values == values.flat[0]):
        values = values.flat[:1]
        uniform = True
    else:
        uniform = False
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if values.dtype.name == "uint64":
        numbers = np.minimum(numbers, LARGEST)
    several = [float(number) if np.isfinite(number) else None for number in numbers]
    return several[0] if uniform else several


def picture(space, image):
    """The shape to store and where its channels are, if the box is an image."""
    shape = list(space.shape)
    if image == "none" or space.dtype != np.uint8 or not np.all(space.low == 0) or not np.all(space.high == 255):
        return shape, None
    if len(shape) == 2 and min(shape) >= 8:
        return [1] + shape, "chw"
    if len(shape) != 3:
        return shape, None
    if image != "auto":
        return shape, image
    first, middle, last = shape
    # Channels are few, and fewer than the pixels of a side; where both ends could be channels nothing is said.
    at_front, at_back = (few <= 16 and few < min(a, b) for few, a, b in [(first, middle, last), (last, first, middle)])
    return shape, {(True, False): "chw", (False, True): "hwc"}.get((at_front, at_back))


def writer(space, leaves, row, path):
    """A function that writes a value of the space into `row`. `leaves` is an iterator that it takes its own from."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict):
        parts = [(key, writer(part, leaves, row, path + [key])) for key, part in entries(space)]

        def write_dict(value):
            for key, write in parts:
                try:
                    part = value[key]
                except (KeyError, TypeError, IndexError):
                    raise ValueError("%s: expected a dict with the key %r, got %s"
                                     % (where(path), key, shown(value))) from None
                write(part)
        return write_dict
    if isinstance(space, spaces.Tuple):
        parts = [writer(part, leaves, row, path + [i]) for i, part in enumerate(space.spaces)]

        def write_tuple(value):
            if not isinstance(value, (tuple, list)) or len(value) != len(parts):
                raise ValueError("%s: expected a tuple of %d, got %s" % (where(path), len(parts), shown(value)))
            for write, part in zip(parts, value):
                write(part)
        return write_tuple
    leaf = next(leaves)
    if isinstance(space, spaces.Box):
        return box_writer(space, view(row, leaf, space.shape), path)
    if isinstance(space, spaces.Discrete):
        return discrete_writer(space, view(row, leaf, (1,)), path)
    if isinstance(space, spaces.MultiDiscrete):
        start = getattr(space, "start", np.zeros_like(space.nvec))
        return choices_writer(space, space.nvec, start, view(row, leaf, space.shape), path)
    return choices_writer(space, np.full(space.shape, 2), 0, view(row, leaf, space.shape), path)


def view(row, leaf, shape):
    """An array of this shape on the bytes of a leaf."""
    return np.ndarray(shape, leaf["dtype"], buffer=row.data if row.size else bytearray(1), offset=leaf["offset"])


def array(value):
    """A value as an array: one of objects where it has rows of unequal lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(None)


def box_writer(space, place, path):
    dtype, shape = space.dtype, space.shape
    exact = np.can_cast(dtype, place.dtype, "safe")

    def write(value):
        if exact and type(value) is np.ndarray and value.dtype == dtype and value.shape == shape:
            place[...] = value
            return
        given = array(value)
        if given.shape != shape or given.dtype.kind not in "biuf":
            raise ValueError("%s: expected shape %s of %s, got %s" % (where(path), shape, dtype, shown(value)))
        with np.errstate(all="ignore"):
            typed = given.astype(dtype)
            stored = typed.astype(place.dtype)
        if dtype.kind != "f":
            held_as = "%s (as which %s is stored)" % (place.dtype, dtype)
            for lost, by in [(typed != given, dtype), (stored != typed, held_as)]:
                if np.any(lost):
                    raise ValueError("%s: got %s, which %s cannot hold" % (where(path), given[lost].ravel()[0], by))
        place[...] = stored
    return write


def discrete_writer(space, place, path):
    n, start = int(space.n), int(space.start)

    def write(value):
        try:
            index = operator.index(value) - start
        except TypeError:
            given = array(value)
            if given.size != 1 or given.dtype.kind not in "biu":
                raise ValueError("%s: expected a whole number, got %s" % (where(path), shown(value))) from None
            index = int(given.item()) - start
        if not 0 <= index < n:
            raise ValueError("%s: got %s, which is outside %d..=%d" % (where(path), value, start, start + n - 1))
        place[0] = index
    return write


def choices_writer(space, sizes, start, place, path):
    shape = space.shape

    def write(value):
        given = array(value)
        if given.shape != shape or given.dtype.kind not in "biu":
            raise ValueError("%s: expected shape %s of %s, got %s" % (where(path), shape, space.dtype, shown(value)))
        index = given.astype(np.int64) - start
        if np.any(index < 0) or np.any(index >= sizes):
            raise ValueError("%s: got %s, which is outside %s" % (where(path), given.tolist(), space))
        place[...] = index
    return write


def reader(space, leaves, records):
    """A function that returns the actions of all rows of `records`. They share no memory with it."""
    spaces = gymnasium.spaces
    lanes = records.shape[0]
    if isinstance(space, spaces.Dict):
        keys = [key for key, _ in entries(space)]
        parts = [reader(part, leaves, records) for _, part in entries(space)]
        return lambda: [dict(zip(keys, values)) for values in zip(*[part() for part in parts])] if parts else [{}] * lanes
    if isinstance(space, spaces.Tuple):
        parts = [reader(part, leaves, records) for part in space.spaces]
        return lambda: list(zip(*[part() for part in parts])) if parts else [()] * lanes
    leaf = next(leaves)
    shape = space.shape
    size = int(np.prod(shape)) if shape else 1
    column = np.ndarray((lanes, size), leaf["dtype"], buffer=records.data if records.size else bytearray(1),
                        offset=leaf["offset"], strides=(records.shape[1], np.dtype(leaf["dtype"]).itemsize))
    if isinstance(space, spaces.Discrete):
        column, start, dtype = column[:, 0], int(space.start), space.dtype
        return lambda: list(column.astype(dtype) + dtype.type(start))
    if isinstance(space, spaces.MultiDiscrete):
        start = np.ravel(getattr(space, "start", np.zeros_like(space.nvec)))
        return lambda: list((column.astype(space.dtype) + start).astype(space.dtype).reshape((lanes,) + shape))
    if isinstance(space, spaces.MultiBinary):
        return lambda: list(column.astype(space.dtype).reshape((lanes,) + shape))
    read = column.copy if space.dtype.kind == "f" else lambda: np.rint(column)
    low, high = inner_bounds(space)
    if np.any(low.astype(column.dtype) != low) or np.any(high.astype(column.dtype) != high):
        unbounded = read
        read = lambda: np.clip(unbounded().astype(np.float64), low, high)
    return lambda: list(read().astype(space.dtype).reshape((lanes,) + shape))


def inner_bounds(space):
    """A box's bounds as float64, never outside it. Actions come bounded, but in float32, which may round outwards."""
    low, high = (np.ravel(bounds).astype(np.float64) for bounds in (space.low, space.high))
    if space.dtype.kind in "iu":
        # The greatest ones have no float64 of their own.
        low = np.array([np.nextafter(x, 0) if int(x) < int(y) else x for x, y in zip(low, np.ravel(space.low))])
        high = np.array([np.nextafter(x, 0) if int(x) > int(y) else x for x, y in zip(high, np.ravel(space.high))])
    return low, high
