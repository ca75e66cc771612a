"""Steps an environment with Gymnasium alone, as a test of the bridge asks on standard input (JSON).

Writes for each turn and lane: the reward (f64), the ends (u8: 1 terminated, 2 truncated) and the first eight
bytes of the SHA-256 of the observation, and of the action mask if there is one.
"""
import hashlib
import importlib
import json
import struct
import sys

import gymnasium
import numpy as np


def flat(space, value):
    """The bytes of a value, part by part: boxes as they are, choices as 32-bit indices."""
    if isinstance(space, gymnasium.spaces.Dict):
        return b"".join(flat(space[key], value[key]) for key in space)
    if isinstance(space, gymnasium.spaces.Tuple):
        return b"".join(flat(part, item) for part, item in zip(space, value))
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.int32(value - space.start).tobytes()
    assert value.dtype == space.dtype and value.shape == space.shape
    return value.tobytes()


def main():
    asked = json.load(sys.stdin)
    for module in asked["imports"]:
        importlib.import_module(module)
    envs = [gymnasium.make(asked["id"]) for _ in asked["seeds"]]
    seeds = [iter(seeds) for seeds in asked["seeds"]]
    due = [True] * len(envs)
    for actions in asked["actions"]:
        for lane, env in enumerate(envs):
            reward, ends = 0.0, 0
            if due[lane]:
                observation, info = env.reset(seed=next(seeds[lane]))
                due[lane] = False
            else:
                space, action = env.action_space, actions[lane]
                if isinstance(space, gymnasium.spaces.Discrete):
                    action = np.int64(action[0] + space.start)
                else:
                    action = np.array(action, np.float32).astype(space.dtype).reshape(space.shape)
                observation, reward, terminated, truncated, info = env.step(action)
                ends = 1 if terminated else 2 if truncated else 0
                if terminated:
                    observation, info = env.reset(seed=next(seeds[lane]))
                due[lane] = ends == 2
            seen = flat(env.observation_space, observation)
            if "action_mask" in info:
                seen += np.asarray(info["action_mask"], np.uint8).tobytes()
            digest = hashlib.sha256(seen).digest()[:8]
            sys.stdout.buffer.write(struct.pack("<dB8s", float(reward), ends, digest))


main()
