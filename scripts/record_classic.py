#!/usr/bin/env python3
"""Records golden data for envs/classic from Gymnasium.

    pip install 'gymnasium>=1.0' numpy
    python scripts/record_classic.py

writes envs/classic/tests/golden/<env id>.csv. Lines that start with '#' are 'key: value' facts: versions,
spaces, time limits. The others are records:

    step,<state>,<action>,<next state>,<observation>,<reward>,<terminated>
    reset,<uniform draws>,<state>,<observation>,<action>,<next state>,<observation>,<reward>,<terminated>

A step starts from a state that was set; a reset is followed by one step, because an environment may hold
its first state in another precision than the later ones. Numbers are written so that they read back
exactly. States come from random play and, at the end, from the edges of what the state can be.
"""

import copy
import math
import pathlib
import platform
import sys

import gymnasium as gym
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "envs" / "classic" / "tests" / "golden"
STEPS = 1200
RESETS = 50


def number(x):
    """The shortest text that reads back as the same number of the same type."""
    return str(x) if isinstance(x, np.float32) else repr(float(x))


def row(kind, *groups):
    return ",".join([kind] + [number(x) for group in groups for x in np.ravel(np.asarray(group, dtype=object))])


def floats(xs):
    return [float(x) for x in xs]


class Recorder:
    def __init__(self, env_id, set_state, edges, *, random, drive, idle):
        """`random` draws an action, `drive` takes a state far, `idle` never ends an episode."""
        self.env_id, self.set_state, self.edges = env_id, set_state, edges
        self.random, self.drive, self.idle = random, drive, idle
        self.env = gym.make(env_id)
        self.bare = self.env.unwrapped
        self.rng = np.random.default_rng(20240229)
        self.lines = []

    def fact(self, key, value):
        self.lines.append(f"# {key}: {value}")

    def step(self, action):
        """One step of the bare environment, as the columns after the action."""
        observation, reward, terminated, truncated, _ = self.bare.step(action)
        assert not truncated and observation.dtype == np.float32
        return floats(self.bare.state), list(observation), [float(reward)], [float(terminated)]

    def facts(self):
        self.fact("gymnasium", gym.__version__)
        self.fact("numpy", np.__version__)
        self.fact("python", platform.python_version())
        self.fact("machine", f"{platform.system()} {platform.machine()}")
        self.fact("env", self.env_id)
        self.fact("time_limit", self.env.spec.max_episode_steps)
        self.fact("truncated_at", self.truncated_at())
        space = self.bare.observation_space
        self.fact("observation_low", ",".join(number(x) for x in space.low))
        self.fact("observation_high", ",".join(number(x) for x in space.high))
        space = self.bare.action_space
        if isinstance(space, gym.spaces.Discrete):
            assert space.start == 0
            self.fact("actions", space.n)
        else:
            self.fact("action_low", ",".join(number(x) for x in space.low))
            self.fact("action_high", ",".join(number(x) for x in space.high))

    def truncated_at(self):
        """The length of an episode that does not end by itself."""
        self.env.reset(seed=1)
        for n in range(1, 2000):
            _, _, terminated, truncated, _ = self.env.step(self.idle(self.bare.state))
            assert not terminated, "the episode ended by itself"
            if truncated:
                return n
        raise AssertionError("no time limit")

    def resets(self):
        low, high = [], []
        for n in range(RESETS):
            self.bare.reset(seed=1000 + n)
            generator = copy.deepcopy(self.bare.np_random)
            observation, _ = self.bare.reset()
            state = floats(self.bare.state)
            # uniform(low, high) is low + (high - low) * random(), one draw for each number.
            draws = generator.random(len(state))
            if self.env_id.startswith("MountainCar"):
                draws = draws[:1]
            low.append(state)
            high.append(state)
            action = self.random(self.rng)
            before = (floats(draws), state, list(observation), np.ravel(action))
            self.lines.append(row("reset", *before, *self.step(action)))
        self.fact("reset_seen_low", ",".join(number(x) for x in np.min(low, axis=0)))
        self.fact("reset_seen_high", ",".join(number(x) for x in np.max(high, axis=0)))

    def steps(self):
        self.bare.reset(seed=7)
        done, age = True, 0
        for n in range(STEPS):
            if done or age > 300:
                self.bare.reset()
                self.bare.step(self.random(self.rng))  # past the first state
                age = 0
            state = floats(self.bare.state)
            # Random play alone stays near the start: every other 200 steps are mostly driven.
            driven = (n // 200) % 2 == 1 and self.rng.random() < 0.7
            action = self.drive(self.bare.state) if driven else self.random(self.rng)
            after = self.step(action)
            done, age = bool(after[3][0]), age + 1
            self.lines.append(row("step", state, np.ravel(action), *after))
        for state, action in self.edges:
            self.bare.reset()
            self.bare.step(self.random(self.rng))
            self.set_state(self.bare, state)
            before = floats(self.bare.state)
            self.lines.append(row("step", before, np.ravel(action), *self.step(action)))

    def record(self):
        self.facts()
        self.resets()
        self.steps()
        path = OUT / f"{self.env_id}.csv"
        path.write_text("\n".join(self.lines) + "\n")
        print(f"{path}: {len(self.lines)} lines, {path.stat().st_size} bytes")


def set_f64(env, state):
    env.state = np.array(state, dtype=np.float64)
    if hasattr(env, "steps_beyond_terminated"):
        env.steps_beyond_terminated = None


def set_f32(env, state):
    env.state = np.array(state, dtype=np.float32)


def box(*xs):
    return np.array(xs, dtype=np.float32)


def around(x):
    """A number with its neighbours on both sides, near and next door."""
    return [x - 1e-3, np.nextafter(x, -np.inf), x, np.nextafter(x, np.inf), x + 1e-3]


def discrete(n):
    return lambda rng: int(rng.integers(n))


def cartpole():
    limit, tau = 12 * 2 * math.pi / 360, 0.02
    edges = []
    for action in (0, 1):
        for sign in (-1.0, 1.0):
            # Position and angle move by tau times their speed before they are compared with the limits.
            edges += [([sign * x, 0.0, 0.01, 0.0], action) for x in around(2.4)]
            edges += [([sign * (2.4 - tau * 1.5), sign * 1.5, 0.0, 0.1], action)]
            edges += [([0.3, 0.0, sign * th, 0.0], action) for th in around(limit)]
            edges += [([0.3, 0.0, sign * (limit - tau * 2.0), sign * 2.0], action)]
            edges += [([2.39, sign * 3.0, sign * 0.2, 3.5], action), ([0.0] * 4, action)]
    gains = np.array([0.1, 0.5, 10.0, 2.0])
    balance = lambda s: int(gains @ s > 0)
    return Recorder("CartPole-v1", set_f64, edges, random=discrete(2), drive=balance, idle=balance)


def acrobot():
    pi, edges = math.pi, []
    for action in (0, 1, 2):
        for sign in (-1.0, 1.0):
            edges += [([sign * th, 0.1, sign * 4 * pi, 0.3], action) for th in (0.0, 1.5, 3.0, pi)]
            edges += [([0.1, sign * th, 1.0, sign * 9 * pi], action) for th in (0.0, 1.5, 3.0, pi)]
            edges += [([sign * pi / 3, sign * pi / 3, sign * v, v], action) for v in (0.0, 0.5)]
            edges += [([sign * 2.1, 0.0, 0.0, 0.0], action), ([0.0] * 4, action)]
    pump = lambda s: 2 if s[3] > 0 else 0
    return Recorder("Acrobot-v1", set_f64, edges, random=discrete(3), drive=pump, idle=lambda s: 1)


def mountain_car():
    edges = []
    for action in (0, 1, 2):
        edges += [([-1.2, v], action) for v in (-0.07, -0.001, 0.0, 0.001)]
        edges += [([p, -0.07], action) for p in around(-1.13)]
        edges += [([p, 0.07], action) for p in around(0.43) + around(0.53)]
        edges += [([0.5, v], action) for v in (-1e-3, -1e-9, 0.0, 1e-9)]
        edges += [([0.6, v], action) for v in (-0.07, 0.0, 0.07)]
    pump = lambda s: 2 if s[1] >= 0 else 0
    return Recorder("MountainCar-v0", set_f64, edges, random=discrete(3), drive=pump, idle=lambda s: 1)


def mountain_car_continuous():
    edges, one, f32 = [], np.float32(1), np.float32
    for force in (-2.5, np.nextafter(-one, f32(-2)), -1, -0.3, 0, 0.7, 1, np.nextafter(one, f32(2)), 1.5):
        edges += [([-1.2, v], box(force)) for v in (-0.07, -0.001, 0.0)]
        edges += [([p, -0.07], box(force)) for p in around(-1.13)]
        edges += [([p, 0.07], box(force)) for p in around(0.38) + [0.53]]
        edges += [([0.45, v], box(force)) for v in (-2e-3, -1e-3, 0.0)]
        edges += [([0.6, v], box(force)) for v in (0.0, 0.07)]
    return Recorder(
        "MountainCarContinuous-v0",
        set_f32,
        edges,
        random=lambda rng: box(rng.uniform(-1.4, 1.4)),
        drive=lambda s: box(math.copysign(0.9, s[1])),
        idle=lambda s: box(0.0),
    )


def pendulum():
    pi, edges = math.pi, []
    for torque in (-2.5, -2, -0.7, 0, 1.3, 2, 3):
        edges += [([th, v], box(torque)) for th in around(pi) + around(-pi) for v in (0.0, 1.0)]
        edges += [([th, v], box(torque)) for th in (pi / 2, -pi / 2) for v in (-8.0, -7.9, 7.9, 8.0)]
        edges += [([th, 8.0], box(torque)) for th in (0.0, 79.9, -80.1, 3 * pi, -5 * pi, 1e4)]
    return Recorder(
        "Pendulum-v1",
        set_f64,
        edges,
        random=lambda rng: box(rng.uniform(-2.6, 2.6)),
        drive=lambda s: box(math.copysign(2.0, s[1])),
        idle=lambda s: box(0.0),
    )


if __name__ == "__main__":
    if int(gym.__version__.split(".")[0]) < 1:
        sys.exit(f"Gymnasium 1.0 or later is needed; found {gym.__version__}")
    OUT.mkdir(parents=True, exist_ok=True)
    for recorder in (cartpole, acrobot, mountain_car, mountain_car_continuous, pendulum):
        recorder().record()
