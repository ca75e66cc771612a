#!/usr/bin/env python3
"""Records golden data for envs/atari from Gymnasium over the Arcade Learning Environment.

    pip install gymnasium==1.4.0 ale-py==0.12.1 opencv-python-headless
    python scripts/record_atari.py

writes envs/atari/tests/golden/<run>.bin: lines of text, 'key: value' (the game and its options, under the names that
hotloop-atari has for them), up to an empty one, then columns of the lengths in bytes that the text names:

    events    1 byte each: a step with this action, or 255, a reset
    ends      1 byte each: 1 terminated, 2 truncated, 4 the game is over; of a reset the number of frames without action
    rewards   1 byte each: the reward, which is small, with a sign
    lives     1 byte each
    frames    4 bytes each, little-endian: CRC-32 of the observation after the event
    screens   4 bytes each: CRC-32 of the console's screen in colours, rows from the top, red, green, blue
    repeats   1 bit for each frame of a step, lowest first: whether the action of the frame before was repeated

Observations are those of Gymnasium's AtariPreprocessing. Where the loss of a life ends an episode it is not reset, and the
next event is the next step; where the game is over it is reset, with another seed.
"""

import pathlib
import zlib
from importlib.metadata import version

import ale_py
import gymnasium
import numpy as np
from gymnasium.wrappers import AtariPreprocessing

OUT = pathlib.Path(__file__).resolve().parent.parent / "envs" / "atari" / "tests" / "golden"
STEPS = 2000
RESET = 255
DEFAULTS = {
    "frame_skip": 4,
    "repeat_action_probability": 0.25,
    "full_action_space": False,
    "noop_max": 30,
    "terminal_on_life_loss": False,
    "max_frames": 108_000,
}
OLD = {"repeat_action_probability": 0.0, "terminal_on_life_loss": True}
RUNS = {
    "pong": ("pong", {}),
    "pong-old": ("pong", OLD | {"frame_skip": 1, "noop_max": 0, "full_action_space": True}),
    "breakout": ("breakout", {}),
    "breakout-old": ("breakout", OLD),
    "seaquest": ("seaquest", {"full_action_space": True, "terminal_on_life_loss": True}),
    "seaquest-old": ("seaquest", OLD | {"max_frames": 1801, "frame_skip": 3}),
}


class Repeats(gymnasium.Wrapper):
    """Computes the emulator's draws again: two of a Mersenne twister for each frame, of which the first is the player's."""

    def __init__(self, env, probability):
        super().__init__(env)
        self.probability, self.bits, self.twister = probability, [], np.random.MT19937()

    def reset(self, *, seed=None, options=None):
        observation, info = self.env.reset(seed=seed, options=options)
        self.twister._legacy_seeding(int(info["seeds"][1]) & 0xFFFFFFFF)
        return observation, info

    def step(self, action):
        first, _ = self.twister.random_raw(), self.twister.random_raw()
        self.bits.append(first / 2**32 < self.probability)
        return self.env.step(action)


def record(name, game, options):
    kwargs = DEFAULTS | options
    repeats = Repeats(
        gymnasium.make(
            f"ALE/{game.title()}-v5",
            frameskip=1,
            repeat_action_probability=kwargs["repeat_action_probability"],
            full_action_space=kwargs["full_action_space"],
            max_num_frames_per_episode=kwargs["max_frames"],
        ),
        kwargs["repeat_action_probability"],
    )
    env = AtariPreprocessing(
        repeats,
        noop_max=kwargs["noop_max"],
        frame_skip=kwargs["frame_skip"],
        terminal_on_life_loss=kwargs["terminal_on_life_loss"],
    )
    ale = env.unwrapped.ale
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    columns = {key: [] for key in ["events", "ends", "rewards", "lives", "frames", "screens"]}
    bits = []

    def event(code, end, reward, observation):
        row = [code, end, int(reward) & 0xFF, ale.lives()]
        row += [zlib.crc32(observation.tobytes()), zlib.crc32(ale.getScreenRGB().tobytes())]
        for column, value in zip(columns.values(), row):
            column.append(value)

    over, seed, ends = True, 0, [0, 0, 0]
    for _ in range(STEPS):
        if over:
            seed += 1
            observation, _ = env.reset(seed=seed)
            event(RESET, ale.getEpisodeFrameNumber(), 0, observation)
            action, repeats.bits = 0, []
        # Actions that are held for a while get further than those that change with every step.
        if rng.random() < 0.3:
            action = int(rng.integers(env.action_space.n))
        observation, reward, terminated, truncated, _ = env.step(action)
        over = ale.game_over()
        for kind, happened in enumerate([terminated, truncated, over]):
            ends[kind] += happened
        event(action, terminated | truncated << 1 | over << 2, reward, observation)
        bits += repeats.bits
        repeats.bits = []

    wide = {"frames", "screens"}
    data = {key: np.array(column, "<u4" if key in wide else "u1").tobytes() for key, column in columns.items()}
    data["repeats"] = np.packbits(np.array(bits, bool), bitorder="little").tobytes()
    facts = {"game": game, "actions": env.action_space.n} | kwargs
    facts |= {"recorded with": f"gymnasium {version('gymnasium')}, ale-py {version('ale-py')}"}
    facts |= {key: len(column) for key, column in data.items()}
    text = "".join(f"{key}: {str(value).lower() if isinstance(value, bool) else value}\n" for key, value in facts.items())
    (OUT / f"{name}.bin").write_bytes(text.encode() + b"\n" + b"".join(data.values()))
    print(f"{name}: {seed} games, {ends[0]} terminations, {ends[1]} truncations, {ends[2]} games over")


if __name__ == "__main__":
    gymnasium.register_envs(ale_py)
    OUT.mkdir(parents=True, exist_ok=True)
    for run, (game, options) in RUNS.items():
        record(run, game, options)
