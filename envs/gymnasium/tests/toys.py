"""Small environments for tests of the bridge, registered as Toys/NAME-v0."""
import os
import signal
import subprocess
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Toy(gym.Env):
    """Two actions; observes how many steps were taken."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.observe(), {}

    def step(self, action):
        self.at += 1
        return self.observe(), 1.0, False, False, {}

    def observe(self):
        return np.array([self.at], np.float32)


class Count(Toy):
    """Counts from ten times the number of the episode; ends after `length` steps."""

    def __init__(self, length=3, end="term", **kwargs):
        super().__init__(**kwargs)
        self.length, self.end, self.start = length, end, -10

    def reset(self, *, seed=None, options=None):
        self.start += 10
        return super().reset(seed=seed)

    def step(self, action):
        observation, reward, *_ = super().step(action)
        over = self.at == self.length
        return observation, reward, over and self.end in ("term", "both"), over and self.end in ("trunc", "both"), {}

    def observe(self):
        return np.array([self.start + self.at], np.float32)

    def render(self):
        return np.full((2, 3, 3), self.start + self.at, np.uint8)


class Rewards(Toy):
    """Gives one reward of each type in turn."""

    given = [2, np.int64(2), np.array(2.0), np.array([2.0]), True, 0.1, np.int64(16777217)]

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.given[(self.at - 1) % len(self.given)], *rest


class Strange(Toy):
    """Returns something wrong at step 2."""

    def __init__(self, what, **kwargs):
        super().__init__(**kwargs)
        self.what = what
        if what == "wraps":
            self.observation_space = spaces.Box(0, 255, (2,), np.uint8)

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self.at == 2:
            observation, reward = {
                "shape": (np.zeros((1, 2), np.float32), 1.0),
                "wraps": (np.array([1, 300], np.int16), 1.0),
                "text": ("hello", 1.0),
                "reward": (observation, np.ones(2)),
                "nan": (np.array([np.nan], np.float32), 1.0),
                "infinite": (observation, float("inf")),
                "double": (np.array([0.1], np.float64), 1.0),
            }[self.what]
        return observation, reward, *rest

    def observe(self):
        return np.array([self.at] * self.observation_space.shape[0], self.observation_space.dtype)


class Everything(Toy):
    """A Dict of all kinds of spaces, and an action space of several; observes the last action."""

    observation_space = spaces.Dict({
        "box": spaces.Box(-5, 5, (2, 2), np.float64),
        "half": spaces.Box(-5, 5, (), np.float16),
        "flag": spaces.Box(0, 1, (2,), bool),
        "words": spaces.Box(0, 60000, (1,), np.uint16),
        "nothing": spaces.Box(0, 1, (0,), np.float32),
        "choice": spaces.Discrete(19, start=2),
        "inner": spaces.Tuple([spaces.MultiDiscrete([3, 4], start=[1, -1]), spaces.MultiBinary(3)]),
    })
    action_space = spaces.Dict({
        "choice": spaces.Discrete(3, start=-1),
        "force": spaces.Box(-1, 1, (2, 1), np.float64),
        "gear": spaces.Tuple([spaces.MultiDiscrete([2, 3], start=[0, 5]), spaces.MultiBinary(2)]),
    })

    def reset(self, *, seed=None, options=None):
        self.last = {"choice": 0, "force": np.zeros((2, 1)), "gear": (np.array([0, 5]), np.zeros(2, np.int8))}
        return super().reset(seed=seed)

    def step(self, action):
        assert self.action_space.contains(action), action
        self.last = action
        return super().step(action)

    def observe(self):
        gear, bits = self.last["gear"]
        return {
            "box": np.array([[self.at, self.last["force"][0, 0]], [0.5, -0.5]]),
            "half": np.float16(0.25),
            "flag": np.array([True, False]),
            "words": np.array([60000], np.uint16),
            "nothing": np.zeros(0, np.float32),
            "choice": self.last["choice"] + 20,
            "inner": (np.array([gear[0] + 1, gear[1] - 6]), np.array([1, bits[0], bits[1]], np.int8)),
        }


class Nested(Toy):
    """A Dict whose numbers are random, and whose episodes end at random."""

    observation_space = spaces.Dict({
        "a": spaces.Box(0, 1, (3,), np.float64),
        "b": spaces.Tuple([spaces.Discrete(7, start=-3), spaces.Box(0, 255, (2, 2), np.uint8)]),
    })

    def step(self, action):
        observation, *_ = super().step(action)
        return observation, self.np_random.random(), self.np_random.random() < 0.05, self.np_random.random() < 0.05, {}

    def observe(self):
        random = self.np_random
        return {"a": random.random(3), "b": (random.integers(-3, 4), random.integers(0, 256, (2, 2), np.uint8))}


class Masked(Toy):
    """Allows one of three choices, another at each step."""

    action_space = spaces.Discrete(3)

    def info(self):
        return {"action_mask": np.array([i == self.at % 3 for i in range(3)], np.int8)}

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self.info()

    def step(self, action):
        observation, reward, *rest, _ = super().step(action)
        return observation, reward, *rest, self.info()


class Large(Toy):
    observation_space = spaces.Box(-np.inf, np.inf, (1200, 1200, 3), np.float32)

    def observe(self):
        observation = np.zeros((1200, 1200, 3), np.float32)
        observation[-1, -1, -1] = self.at
        return observation


class Words(Toy):
    observation_space = spaces.Dict({"said": spaces.Text(10)})


class Fault(Toy):
    """Does something bad, if `lane` says that it is the one: lanes are told apart by who was made first."""

    made = 0

    def __init__(self, kind, lane=0, **kwargs):
        super().__init__(**kwargs)
        self.kind, self.guilty = kind, Fault.made == lane
        Fault.made += 1
        if self.guilty and kind == "constructor":
            raise ValueError("boom-42 in the constructor")

    def reset(self, *, seed=None, options=None):
        self.episode = getattr(self, "episode", -1) + 1
        if self.guilty and self.kind == "reset" and self.episode == 1:
            raise ValueError("boom-42 in reset")
        return super().reset(seed=seed)

    def step(self, action):
        result = super().step(action)
        if self.guilty and self.at == 2:
            self.misbehave()
        if self.kind == "reset" and self.at == 1:
            return result[0], 1.0, True, False, {}
        return result

    def misbehave(self):
        if self.kind == "raise":
            raise ValueError("boom-42")
        if self.kind == "exit":
            raise SystemExit(3)
        if self.kind == "leave":
            print("leaving in silence", flush=True)
            os._exit(7)
        if self.kind == "hang":
            while True:
                time.sleep(0.01)
        if self.kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "segv":
            import ctypes
            ctypes.string_at(0)
        if self.kind == "memory":
            import resource
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 29))
            hoard = []
            while True:
                hoard.append(bytearray(1 << 25))
        if self.kind == "talk":
            os.write(1, b"x" * (1 << 20))
            os.write(2, b"y" * (1 << 20))


class Shares(Toy):
    """Has shared memory of its own, which nobody removes if it is not closed, and names it in a file."""

    def __init__(self, file, leaves=False, **kwargs):
        super().__init__(**kwargs)
        from multiprocessing.shared_memory import SharedMemory
        self.leaves, self.memory = leaves, SharedMemory(create=True, size=64)
        with open(file, "a") as names:
            names.write(self.memory.name + "\n")

    def step(self, action):
        if self.leaves:
            os._exit(7)
        return super().step(action)


class Child(Toy):
    """Starts a process that would outlive it, and observes its number."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)

    def __init__(self, hangs=False, **kwargs):
        super().__init__(**kwargs)
        self.hangs = hangs
        self.child = subprocess.Popen(["sleep", "1000"])

    def step(self, action):
        if self.hangs:
            # For about a minute, in which no other thread gets to run.
            sum(range(2 * 10**9))
        return super().step(action)

    def observe(self):
        return np.array([self.child.pid], np.float64)


class Echo(Toy):
    """Observes the number of its process and the step, and gives its action as the reward, some milliseconds later."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(5)

    def step(self, action):
        time.sleep((0.001, 0.002, 0.003, 0.005)[os.getpid() % 4])
        observation, _, *rest = super().step(action)
        return observation, float(action), *rest

    def observe(self):
        return np.array([os.getpid(), self.at], np.float32)


class Closing(Toy):
    """Takes for ever to be closed."""

    def close(self):
        time.sleep(1000)


class Drawing(Toy):
    """Takes its worker down when it is drawn."""

    def render(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Once(gym.Wrapper):
    """A wrapper with an argument."""

    def __init__(self, env, factor=1):
        super().__init__(env)
        self.factor = factor

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward * self.factor, *rest


for toy in [Count, Rewards, Strange, Everything, Nested, Masked, Large, Words, Fault, Child, Shares, Echo, Closing,
            Drawing]:
    gym.register("Toys/%s-v0" % toy.__name__, toy)
