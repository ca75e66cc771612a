#!/usr/bin/env python3
"""Records golden data for envs/mujoco from Gymnasium.

    pip install 'gymnasium[mujoco]==1.4.0' mujoco==3.17.0
    python scripts/record_mujoco.py

writes envs/mujoco/tests/golden/<env id>.bin for all eleven environments: float64 numbers, little-endian,

    positions, velocities, observed       how many numbers each has
    n, n uniform draws, m, m normal draws what the start drew
    the state (positions, velocities) and the observation of the start
    1,000 rewards
    1,000 flags: terminated
    the states after 50, 100, ..., 1,000 steps
    the observations after 250, 500, 750 and 1,000 steps

Episodes do not end: an environment that terminated is stepped on. The actions are a formula, `action` below.
"""

import pathlib

import gymnasium as gym
import mujoco
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "envs" / "mujoco" / "tests" / "golden"
STEPS, STATES, OBSERVATIONS = 1000, 50, 250
IDS = (
    "Ant HalfCheetah Hopper Humanoid HumanoidStandup InvertedDoublePendulum InvertedPendulum Pusher Reacher Swimmer "
    "Walker2d"
).split()


def action(step, space):
    """Float32 numbers within the bounds; small ones for the first 200 steps, so that nothing falls at once."""
    index = np.arange(space.shape[0], dtype=np.uint64) + np.uint64(step * 32)
    unit = (index * np.uint64(2654435761) % np.uint64(2**32)).astype(np.float64) / 2**32
    scale = 0.1 if step < 200 else 1.0
    return (scale * (2 * unit - 1) * space.high).astype(np.float32)


class Draws:
    """A generator that writes down what it draws."""

    def __init__(self):
        self.generator = np.random.default_rng(1)
        self.uniforms, self.normals = [], []

    def uniform(self, low=0.0, high=1.0, size=None):
        units = self.generator.random(size)
        self.uniforms.extend(np.ravel(units))
        return low + (high - low) * units

    def standard_normal(self, size=None):
        numbers = self.generator.standard_normal(size)
        self.normals.extend(np.ravel(numbers))
        return numbers


def record(name):
    env = gym.make(name + "-v5").unwrapped
    draws = Draws()
    env._np_random = draws
    state = lambda: [*env.data.qpos, *env.data.qvel]
    observation, _ = env.reset()
    out = [env.model.nq, env.model.nv, len(observation)]
    out += [len(draws.uniforms), *draws.uniforms, len(draws.normals), *draws.normals]
    out += [*state(), *observation]
    rewards, ends, states, observations = [], [], [], []
    for step in range(1, STEPS + 1):
        observation, reward, terminated, _, _ = env.step(action(step, env.action_space))
        rewards.append(reward)
        ends.append(terminated)
        if step % STATES == 0:
            states += state()
        if step % OBSERVATIONS == 0:
            observations += [*observation]
    numbers = np.array([*out, *rewards, *ends, *states, *observations], dtype="<f8")
    assert np.isfinite(numbers).all(), name
    (OUT / f"{name}-v5.bin").write_bytes(numbers.tobytes())
    print(f"{name}-v5: {numbers.nbytes} bytes, {int(sum(ends))} steps terminated")


if __name__ == "__main__":
    assert (gym.__version__, mujoco.__version__) == ("1.4.0", "3.17.0"), (gym.__version__, mujoco.__version__)
    OUT.mkdir(parents=True, exist_ok=True)
    for name in IDS:
        record(name)
