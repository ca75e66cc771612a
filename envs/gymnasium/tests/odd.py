"""Environments that answer what a test wants, as Python expressions, and some that do odd things. Toys/NAME-v0."""
import os
import signal
import sys
import threading
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tests.toys import Toy


class Says(Toy):
    """Answers with the values of these expressions; without one as a toy does. In them `number` is how many were
    made before this one in its process."""

    made = 0

    def __init__(self, step=None, reset=None, action="spaces.Discrete(2)", observation=None, picture="None", **kwargs):
        super().__init__(**kwargs)
        self.said = {"step": step, "reset": reset, "picture": picture}
        self.episode, self.number = -1, Says.made
        Says.made += 1
        self.action_space = self.value(action)
        if observation:
            self.observation_space = self.value(observation)

    def value(self, text, **names):
        return eval(text, {"np": np, "spaces": spaces, "env": self, "nested": nested, "fail": fail, **names})

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        observation, info = super().reset(seed=seed)
        if self.said["reset"]:
            return self.value(self.said["reset"], obs=observation, at=0, number=self.number, episode=self.episode)
        return observation, info

    def step(self, action):
        observation, *rest = super().step(action)
        if self.said["step"]:
            return self.value(self.said["step"], obs=observation, at=self.at, number=self.number, episode=self.episode,
                              action=action)
        return observation, *rest

    def render(self):
        return self.value(self.said["picture"])


def nested(depth):
    """A space in so many others."""
    space = spaces.Discrete(2)
    for _ in range(depth):
        space = spaces.Dict({"a": space})
    return space


def fail(text, size=1):
    """Raises an error from another."""
    try:
        raise KeyError("the key")
    except KeyError as error:
        raise ValueError(text * size) from error


class Forks(Toy):
    """Has a child that comes back from where it should have ended: by an exception, or not at all."""

    def __init__(self, how, **kwargs):
        super().__init__(**kwargs)
        self.how = how

    def step(self, action):
        if os.fork() == 0 and self.how == "exit":
            sys.exit(5)
        return super().step(action)


class Careless(Toy):
    """Closes its standard output and goes to another folder; its thread writes and fails."""

    done = False

    def reset(self, *, seed=None, options=None):
        if not Careless.done:
            Careless.done = True
            os.chdir("/")
            print("to be heard")
            sys.stdout.flush()
            threading.Thread(target=lambda: 1 // 0).start()
            os.close(1)
        return super().reset(seed=seed)


class Leaves(Toy):
    """Its process is told to end between two turns, and does so in its own way."""

    def step(self, action):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        return super().step(action)


class Late(Toy):
    """Its worker gets not to run between the last lane and the answer, for a while in the third turn."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        from hotloop_worker.lanes import Lanes
        turn, Lanes.late = Lanes.turn, 0

        def late(lanes):
            turn(lanes)
            Lanes.late += 1
            if Lanes.late == 3:
                time.sleep(3)
        Lanes.turn = late


class Gate(Toy):
    """A reset that lasts until there is a file."""

    def __init__(self, file, **kwargs):
        super().__init__(**kwargs)
        self.file = file

    def reset(self, *, seed=None, options=None):
        for _ in range(3000):
            if os.path.exists(self.file):
                break
            time.sleep(0.01)
        return super().reset(seed=seed)


class Varies(Toy):
    """Each instance has another space."""

    made = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        Varies.made += 1
        self.action_space = spaces.Discrete(1 + Varies.made)


class Old(Toy):
    """From before Gymnasium."""

    def reset(self):
        return self.observe()


class Foreign(Toy):
    """Takes something else for a space."""

    observation_space = {"a": spaces.Discrete(2)}


class Spaceless(gym.Env):
    """Says nothing of its spaces."""

    def reset(self, *, seed=None, options=None):
        return 0, {}


for toy in [Old, Foreign, Spaceless, Says, Forks, Careless, Leaves, Late, Gate, Varies]:
    gym.register("Toys/%s-v0" % toy.__name__, toy)
gym.register("Toys/Limited-v0", Says, max_episode_steps=10)
