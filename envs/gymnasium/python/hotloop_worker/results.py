"""What `step` and `reset` return, where it is not what they return as a rule: made so, or refused."""
from collections.abc import Mapping

import gymnasium
import numpy as np

from hotloop_worker.spaces import array, sizes_of
from hotloop_worker.words import shown

# Where wrappers that reset by themselves keep the last observation of the episode before.
FINAL = ("final_obs", "final_observation", "terminal_observation")


def of_step(result):
    if isinstance(result, (tuple, list)) and len(result) == 5:
        return result
    old = "; that is how it was before Gymnasium 0.26" if isinstance(result, tuple) and len(result) == 4 else ""
    raise ValueError("step(): expected a tuple of observation, reward, terminated, truncated and info, got %s%s"
                     % (shown(result), old))


def of_reset(result):
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return result
    raise ValueError("reset(): expected a tuple of observation and info, got %s" % shown(result))


def number(reward):
    """A reward as a float: of any type that holds one number."""
    given = array(reward)
    if given.size != 1 or given.dtype.kind not in "biuf":
        raise ValueError("reward: expected one number, got %s" % shown(reward))
    return float(given.item())


def flag(name, value):
    """An end of the episode as a bool."""
    if isinstance(value, np.bool_) or isinstance(value, (int, np.integer)) and value in (0, 1):
        return bool(value)
    raise ValueError("%s: expected True or False, got %s" % (name, shown(value)))


def check_info(info):
    if not isinstance(info, Mapping):
        raise ValueError("info: expected a dict, got %s" % shown(info))


def final(observation, info):
    """The last observation of an episode that was truncated, if the environment has begun the next one already."""
    for key in FINAL:
        if info.get(key) is not None:
            return info[key]
    return observation


def has_mask(space, info):
    """Whether the first reset says which choices are allowed."""
    check_info(info)
    if info.get("action_mask") is None:
        return False
    if not isinstance(space, (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)):
        raise ValueError('info["action_mask"]: hotloop takes masks for Discrete and MultiDiscrete actions, and these '
                         "are %s; with env.options.action_mask=false it is not looked at" % (space,))
    return True


def refuse_mask():
    """What comes of a mask that nobody looks at, as the first reset had none."""
    raise ValueError('info["action_mask"] has come, but the first reset had none, so that all choices are open: give '
                     "one with every observation, that of reset() included; or say that it is not to be looked at, "
                     "with env.options.action_mask=false")


def mask_writer(space, place):
    """A function that writes info["action_mask"] into `place`: one value for each choice."""
    size = place.size
    sizes = sizes_of(space)

    def write(info, is_final):
        mask = info.get("action_mask")
        if type(mask) is np.ndarray and mask.shape == (size,) and mask.dtype.itemsize == 1:
            place[...] = mask
        elif mask is None and is_final:
            # No choice follows.
            place[...] = 1
        elif mask is None:
            raise ValueError('info has no "action_mask", but had one at the first reset: give one with every '
                             "observation, or say that it is not to be looked at, with env.options.action_mask=false")
        else:
            place[...] = joined(mask, sizes)
        if place.tobytes().translate(None, b"\0\1"):
            raise ValueError('info["action_mask"]: expected 0 or 1 for each choice, got %s' % (mask,))
    return write


def joined(mask, sizes):
    """A mask in one row, of whatever it is made. What is neither 0 nor 1 becomes 2."""
    rows = [np.asarray(row) for row in rows_of(mask)]
    lengths = [row.size for row in rows]
    if lengths != sizes and lengths != [sum(sizes)] or any(row.dtype.kind not in "biuf" for row in rows):
        apart = "" if len(sizes) == 1 else ", in a tuple with one array for each of the choices %s" % sizes
        raise ValueError('info["action_mask"]: expected %d values of 0 or 1%s, got %s'
                         % (sum(sizes), apart, shown(mask)))
    given = np.concatenate(rows)
    return np.where(given == 1, 1, np.where(given == 0, 0, 2))


def rows_of(mask):
    """The innermost rows of nested tuples, lists and arrays."""
    if isinstance(mask, np.ndarray) and mask.ndim > 1 \
            or isinstance(mask, (tuple, list)) and any(isinstance(p, (tuple, list)) or np.ndim(p) for p in mask):
        return [row for part in mask for row in rows_of(part)]
    return [np.ravel(mask)]
