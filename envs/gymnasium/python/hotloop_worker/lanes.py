"""The environments of one worker: made, wrapped, and given their turns."""
import importlib
import traceback

import gymnasium
import numpy as np

from hotloop_worker import spaces

# What a lane is told to do.
NOTHING, STEP, RESET, REBUILD = range(4)
# What it is doing, as the parent reads it: 4 * lane + phase.
BUILDING, RESETTING, STEPPING = 1, 2, 3
IDLE = 0


def find(name):
    """What "module:Name" names."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def maker(recipe):
    """A function that makes one environment of the recipe."""
    for module in recipe["imports"]:
        importlib.import_module(module)
    wrappers = []
    for wrapper in recipe["wrappers"]:
        options = {} if isinstance(wrapper, str) else dict(wrapper)
        wrappers.append((find(wrapper if isinstance(wrapper, str) else options.pop("wrapper")), options))
    kwargs = dict(recipe["kwargs"])
    if recipe["drawn"]:
        kwargs.setdefault("render_mode", "rgb_array")

    def make():
        env = gymnasium.make(recipe["id"], disable_env_checker=True, **kwargs)
        for wrap, options in wrappers:
            env = wrap(env, **options)
        return env
    return make


def told(error):
    """What an error says, and where it came from, without the worker's own lines."""
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith(("<hotloop_worker", "<string>", "<frozen"))]
    # What Gymnasium itself has to say needs no proof.
    if not frames or isinstance(error, gymnasium.error.Error):
        return said
    frames = frames[-6:]
    return said + "\nTraceback (most recent call last):\n" + "".join(traceback.format_list(frames)).rstrip()


def number(reward):
    """A reward as a float: of any type that holds one number."""
    given = np.asarray(reward)
    if given.size != 1 or given.dtype.kind not in "biuf":
        raise ValueError("reward: expected one number, got %s" % spaces.shown(reward))
    return float(given.item())


class Lanes:
    """Environments beside the shared memory that they write to."""

    def __init__(self, make, first, lanes, shared, held):
        self.make = make
        self.held = held
        self.space = (first.observation_space, first.action_space)
        self.shared = shared
        self.envs = [None] * lanes
        self.steps = [None] * lanes
        self.resets = [None] * lanes
        self.faults = []
        self.writers = [spaces.writer(first.observation_space, iter(shared.observation_leaves), row, ["observation"])
                        for row in shared.observations]
        self.read = spaces.reader(first.action_space, iter(shared.action_leaves), shared.actions)
        for lane in range(lanes):
            self.build(lane, first if lane == 0 else None)

    def build(self, lane, env=None):
        """Gives a lane a new environment, or this one."""
        self.shared.at[0] = 4 * lane + BUILDING
        self.discard(lane)
        env = env or self.make()
        self.envs[lane] = env
        if (env.observation_space, env.action_space) != self.space:
            raise ValueError("the environment of this lane has the spaces %s and %s, that of the first %s and %s"
                             % (env.observation_space, env.action_space, *self.space))
        self.steps[lane], self.resets[lane] = env.step, env.reset

    def discard(self, lane):
        """Closes a lane's environment; what a failed one says when it is closed adds nothing."""
        env, self.envs[lane] = self.envs[lane], None
        if env is not None:
            try:
                env.close()
            except BaseException:
                pass

    def turn(self):
        """Does what every lane was told. `faults` then has those that failed: lane, phase, whether the step
        before a failed reset went well, and what was said."""
        shared, writers, steps, resets = self.shared, self.writers, self.steps, self.resets
        at, rewards, ends, seeds = shared.at, shared.rewards, shared.ends, shared.seeds
        masks = shared.masks
        commands = shared.commands.tolist()
        actions = self.read()
        self.faults = []
        for lane, command in enumerate(commands):
            stepped = False
            try:
                if command == STEP:
                    at[0] = 4 * lane + STEPPING
                    observation, reward, terminated, truncated, info = steps[lane](actions[lane])
                    rewards[lane] = reward if type(reward) is float else number(reward)
                    if terminated:
                        ends[lane] = 1
                        if self.held:
                            # Its last state is to be drawn; the reset comes with the next turn.
                            continue
                        stepped = True
                        at[0] = 4 * lane + RESETTING
                        observation, info = resets[lane](seed=seeds[lane])
                    else:
                        ends[lane] = 2 if truncated else 0
                elif command == NOTHING:
                    continue
                else:
                    if command == REBUILD:
                        self.build(lane)
                    at[0] = 4 * lane + RESETTING
                    observation, info = resets[lane](seed=seeds[lane])
                writers[lane](observation)
                if masks is not None:
                    write_mask(masks[lane], info)
            except BaseException as error:
                self.faults.append({"lane": lane, "phase": at[0] & 3, "stepped": stepped, "said": told(error)})
        at[0] = IDLE

    def close(self):
        for lane in range(len(self.envs)):
            self.discard(lane)


def write_mask(place, info):
    """Writes info["action_mask"]: one value for each choice."""
    mask = info.get("action_mask")
    if mask is None:
        raise ValueError('info has no "action_mask", but had one at the first reset')
    given = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, (tuple, list)) and len(mask) \
        and np.ndim(mask[0]) else np.ravel(mask)
    if given.size != place.size:
        raise ValueError('info["action_mask"]: expected %d values, got %d' % (place.size, given.size))
    place[...] = given != 0


def has_mask(env, info):
    """Whether the environment says which choices are allowed."""
    kinds = (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)
    return isinstance(env.action_space, kinds) and info.get("action_mask") is not None
