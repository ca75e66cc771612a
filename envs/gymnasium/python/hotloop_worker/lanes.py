"""The environments of one worker: made, wrapped, and given their turns."""
import importlib
import os
import sys

import gymnasium

from hotloop_worker import results, spaces
from hotloop_worker.words import told

# What a lane is told to do.
NOTHING, STEP, RESET, REBUILD = range(4)
# What it is doing, as the parent reads it: 4 * lane + phase. Before a turn the parent writes 0 there, and to ends.
BUILDING, RESETTING, STEPPING = 1, 2, 3
DONE = 4


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
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name not in (module, module.partition(".")[0]):
                raise
            raise ImportError("%s; it was looked for in the current folder, in PYTHONPATH and among what %s has installed "
                              "(%s -m pip install -e FOLDER)" % (error, sys.executable, sys.executable)) from None
    wrappers = []
    for wrapper in recipe["wrappers"]:
        options = {} if isinstance(wrapper, str) else dict(wrapper)
        wrappers.append((find(wrapper if isinstance(wrapper, str) else options.pop("wrapper")), options))
    kwargs = dict(recipe["kwargs"])
    if recipe["drawn"]:
        kwargs.setdefault("render_mode", "rgb_array")

    def make():
        try:
            env = gymnasium.make(recipe["id"], disable_env_checker=True, **kwargs)
        except (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound) as error:
            if recipe["imports"]:
                raise
            raise type(error)("%s If a module registers it when it is imported, name that with env.import=MODULE." % error
                              ) from None
        for wrap, options in wrappers:
            env = wrap(env, **options)
        return env
    return make


class Lanes:
    """Environments beside the shared memory that they write to."""

    def __init__(self, make, first, lanes, shared, recipe):
        self.make = make
        self.held = recipe["drawn"]
        # Masks that come although the first reset had none are no masks that may be passed over.
        self.watched = recipe["action_mask"] and shared.masks is None
        self.child = False
        os.register_at_fork(after_in_child=self.become_child)
        self.space = (first.observation_space, first.action_space)
        self.shared = shared
        self.envs = [None] * lanes
        self.steps = [None] * lanes
        self.resets = [None] * lanes
        self.faults = []
        self.writers = [spaces.writer(first.observation_space, iter(shared.observation_leaves), row, ["observation"])
                        for row in shared.observations]
        self.masks = None if shared.masks is None else [
            results.mask_writer(first.action_space, place) for place in shared.masks]
        self.read = spaces.reader(first.action_space, iter(shared.action_leaves), shared.actions)
        # The others are made when they are to be reset, each a matter of its own lane.
        self.take(0, first)

    def build(self, lane):
        """Gives a lane a new environment."""
        self.shared.at[0] = 4 * lane + BUILDING
        self.discard(lane)
        self.take(lane, self.make())

    def take(self, lane, env):
        if (env.observation_space, env.action_space) != self.space:
            raise ValueError("the environment of this lane has the spaces %s and %s, that of the first %s and %s"
                             % (env.observation_space, env.action_space, *self.space))
        self.envs[lane], self.steps[lane], self.resets[lane] = env, env.step, env.reset

    def discard(self, lane):
        """Closes a lane's environment; what a failed one says when it is closed adds nothing."""
        env = self.envs[lane]
        # Methods of it would keep it alive while its successor is made.
        self.envs[lane] = self.steps[lane] = self.resets[lane] = None
        if env is not None:
            try:
                env.close()
            except BaseException:
                pass

    def turn(self):
        """Does what every lane was told. `faults` then has those that failed: lane, phase, whether the step
        before a failed reset went well, and what was said."""
        shared, writers, steps = self.shared, self.writers, self.steps
        at, rewards, ends, seeds = shared.at, shared.rewards, shared.ends, shared.seeds
        masks, watched = self.masks, self.watched
        self.faults = []
        for lane, (command, action) in enumerate(zip(shared.commands.tolist(), self.read())):
            stepped = truncated = False
            try:
                if command == STEP:
                    at[0] = 4 * lane + STEPPING
                    result = steps[lane](action)
                    if type(result) is not tuple or len(result) != 5:
                        result = results.of_step(result)
                    observation, reward, terminated, truncated, info = result
                    rewards[lane] = reward if type(reward) is float else results.number(reward)
                    if terminated is not False or truncated is not False:
                        terminated = results.flag("terminated", terminated)
                        truncated = results.flag("truncated", truncated)
                    if type(info) is not dict:
                        results.check_info(info)
                    if terminated:
                        ends[lane] = 1
                        if self.held:
                            # Its last state is to be drawn; the reset comes with the next turn.
                            continue
                        stepped, truncated = True, False
                        at[0] = 4 * lane + RESETTING
                        observation, info = self.reset(lane, seeds[lane])
                    elif truncated:
                        ends[lane] = 2
                        observation = results.final(observation, info)
                elif command == NOTHING:
                    continue
                else:
                    if command == REBUILD or self.envs[lane] is None:
                        self.build(lane)
                    at[0] = 4 * lane + RESETTING
                    observation, info = self.reset(lane, seeds[lane])
                writers[lane](observation)
                if masks is not None:
                    masks[lane](info, truncated)
                elif info and watched and info.get("action_mask") is not None:
                    results.refuse_mask()
            except BaseException as error:
                if self.child:
                    os._exit(0)
                self.faults.append({"lane": lane, "phase": at[0] & 3, "stepped": stepped, "said": told(error)})
        at[0] = DONE

    def reset(self, lane, seed):
        """Starts an episode: its first observation and what goes with it."""
        result = self.resets[lane](seed=seed)
        if self.child:
            os._exit(0)
        if type(result) is not tuple or len(result) != 2:
            result = results.of_reset(result)
        if type(result[1]) is not dict:
            results.check_info(result[1])
        return result

    def become_child(self):
        """In a child of an environment, which is no second worker: if it comes back from a step or a reset instead
        of ending, it ends at the next use of this."""
        self.child = True
        self.shared.rewards.release()

    def close(self):
        for lane in range(len(self.envs)):
            self.discard(lane)
