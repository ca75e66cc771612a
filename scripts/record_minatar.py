#!/usr/bin/env python3
"""Records golden data for envs/minatar from the Python package.

    pip install minatar
    python scripts/record_minatar.py [game ...]

writes envs/minatar/tests/golden/<Game>-v1.bin: lines of text, 'key: value', up to an empty one, then four
columns of the lengths that the text names:

    events     1 byte each. Low 3 bits 0 to 5: a step with this action of the minimal set; bit 3 says that the
               episode terminated, the high 4 bits are the reward. Low 3 bits 7: a reset; bit 3 says whether
               difficulty ramps.
    frames     2 bytes each, little-endian, one for each event: the observation after it, as the 32-bit FNV-1a
               hash of its 0s and 1s (row by row, channels last), both halves xored.
    uniforms   1 byte each, in order: the game or the sticky action drew (k + 0.5) / 256 from [0, 1).
    integers   1 byte each, in order: the whole numbers drawn, counted from the least possible.

The package's generator is replaced by one that records. Sticky actions start every episode with no action.
Half of the episodes are random play, the others are played by somebody who looks a few frames ahead, so that
the games become fast and all that the rules know happens. What happened is printed.
"""

import collections
import copy
import pathlib
import platform
import sys
from importlib.metadata import version

import numpy as np
from minatar import Environment

OUT = pathlib.Path(__file__).resolve().parent.parent / "envs" / "minatar" / "tests" / "golden"
STEPS = 9000
RANDOM_EPISODES = 24
NAMES = {
    "breakout": "Breakout",
    "asterix": "Asterix",
    "freeway": "Freeway",
    "seaquest": "Seaquest",
    "space_invaders": "SpaceInvaders",
}


class Draws:
    """Stands in for numpy's RandomState: draws bytes, and keeps them."""

    def __init__(self, seed):
        self.source = np.random.default_rng(seed)
        self.uniforms, self.integers = bytearray(), bytearray()

    def rand(self, *shape):
        drawn = self.source.integers(256, size=shape or 1)
        self.uniforms += bytes(drawn.tolist())
        numbers = (drawn + 0.5) / 256
        return numbers if shape else numbers[0]

    def randint(self, low, high=None, size=None):
        low, high = (0, low) if high is None else (low, high)
        drawn = self.source.integers(high - low, size=size or 1)
        self.integers += bytes(drawn.tolist())
        return drawn + low if size else int(drawn[0]) + low


def frame(state):
    """The hash of an observation."""
    value = 0x811C9DC5
    for byte in state.astype(np.uint8).tobytes():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value >> 16 ^ value & 0xFFFF


class Player:
    """Plays well enough to last: tries each action, wished ones first, with a few random continuations."""

    def __init__(self, env, rng):
        self.env, self.game, self.rng = env, env.env, rng
        self.actions = env.minimal_action_set()
        self.reckless = False

    def twin(self):
        draws, self.game.random = self.game.random, None
        twin = copy.deepcopy(self.game)
        self.game.random, twin.random = draws, np.random.RandomState(0)
        return twin

    def outlook(self, first, frames=6):
        twin, total = self.twin(), 0.0
        for n in range(frames):
            reward, over = twin.act(self.rng.choice(self.actions) if n else first)
            total += reward
            if over:
                return total - 100 + n
        return total

    def choose(self):
        wishes = [self.actions[i] for i in self.wish()] if self.rng.random() > 0.05 else []
        others = [a for a in self.actions if a not in wishes]
        order = wishes + list(self.rng.permutation(others))
        best = max(order, key=lambda a: max(self.outlook(a) for _ in range(3)) + 0.5 * (a in wishes))
        return self.actions.index(best)

    def wish(self):
        """Numbers of actions in the minimal set."""
        return getattr(self, self.env.game_name())()

    def breakout(self):
        twin = self.twin()
        for _ in range(60):
            if twin.act(0)[1]:
                break
        return [0] if twin.ball_x == self.game.pos else [1] if twin.ball_x < self.game.pos else [2]

    def asterix(self):
        g = self.game
        gold = [x for x in g.entities if x is not None and x[3]]
        if not gold:
            return [0]
        x, y = min(gold, key=lambda e: abs(e[0] - g.player_x) + abs(e[1] - g.player_y))[:2]
        return ([2] if y < g.player_y else [4] if y > g.player_y else []) + (
            [1] if x < g.player_x else [3] if x > g.player_x else []
        )

    def freeway(self):
        twin = self.twin()
        before = twin.pos
        for _ in range(3):
            twin.act(2)
        return [1] if twin.pos < before or before == 1 else [2] if self.rng.random() < 0.3 else [0]

    def seaquest(self):
        g = self.game
        if g.diver_count < 0 and g.ramping and g.e_spawn_speed > 1:
            # Surfacing is free now, and makes the game faster.
            return [2 if g.sub_y > 0 else 4]
        if g.diver_count == 6 or (g.oxygen < 50 and g.diver_count != 0):
            # Now and then somebody stays down.
            return [4] if self.reckless else [2]
        near = lambda e: abs(e[0] - g.sub_x) + abs(e[1] - g.sub_y)
        if g.divers and self.rng.random() < 0.8:
            x, y = min(g.divers, key=near)[:2]
        elif g.e_fish + g.e_subs:
            if g.shot_timer == 0 and self.rng.random() < 0.5:
                return [5]
            x, y = min(g.e_fish + g.e_subs, key=near)[:2]
        else:
            x, y = 5, 4
        return ([2] if 1 < y < g.sub_y else [4] if y > g.sub_y else []) + [1 if x < g.sub_x else 3]

    def space_invaders(self):
        g = self.game
        if g.shot_timer == 0 and g.alien_map[:, g.pos].any():
            return [3]
        columns = np.flatnonzero(g.alien_map.any(axis=0))
        target = columns[np.argmin(np.abs(columns - g.pos))]
        return [1] if target < g.pos else [2] if target > g.pos else [0]


class Recorder:
    def __init__(self, name):
        self.name, self.env = name, Environment(name)
        self.draws = Draws(20190307)
        self.env.random = self.env.env.random = self.draws
        self.rng = np.random.default_rng(99)
        self.events, self.frames = bytearray(), bytearray()
        self.seen = collections.Counter()

    def event(self, byte):
        self.events.append(byte)
        self.frames += frame(self.env.state()).to_bytes(2, "little")

    def episode(self, ramping, choose, longest):
        """Plays to the end, or as far as wanted."""
        self.env.env.ramping = ramping
        self.env.last_action = 0
        self.env.reset()
        self.event(7 | ramping << 3)
        self.seen["episodes"] += 1
        before = (0, 0)
        for _ in range(longest):
            action = choose()
            reward, over = self.env.act(self.env.minimal_action_set()[action])
            self.event(action | over << 3 | int(reward) << 4)
            self.seen[f"reward {int(reward)}"] += 1
            self.seen["steps"] += 1
            game = self.env.env
            ramps = game.difficulty_ramp() or 0
            self.seen["greatest ramp"] = max(self.seen["greatest ramp"], ramps)
            if self.name == "seaquest":
                count = (game.diver_count, game.oxygen)
                if before[0] == 6 and count[0] == -1:
                    self.seen["six divers brought up"] += 1
                if before[0] < 0 and count[0] < before[0]:
                    self.seen["surfaced with less than none"] += 1
                if over and game.oxygen <= 0:
                    self.seen["suffocated"] += 1
                self.seen["most enemies"] = max(self.seen["most enemies"], len(game.e_fish + game.e_subs))
                before = count
            if over:
                self.seen["terminated"] += 1
                return

    def play(self):
        actions = len(self.env.minimal_action_set())
        random = lambda: int(self.rng.integers(actions))
        player = Player(self.env, self.rng)
        n = 0
        while n < RANDOM_EPISODES or self.seen["steps"] < STEPS:
            # Freeway's episodes are long whoever plays: two whole ones will do.
            longest = 200 if self.name == "freeway" and n > 0 else 3000
            if n < RANDOM_EPISODES:
                self.episode(n % 4 != 3, random, longest)
            if self.seen["steps"] < STEPS:
                player.reckless = n % 5 == 4
                self.episode(n % 4 != 2, player.choose, min(longest, 2600))
            n += 1

    def write(self):
        columns = {
            "events": self.events,
            "frames": self.frames,
            "uniforms": self.draws.uniforms,
            "integers": self.draws.integers,
        }
        facts = {
            "minatar": version("minatar"),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "actions": len(self.env.minimal_action_set()),
            "channels": self.env.state_shape()[2],
            **{name: len(column) for name, column in columns.items()},
        }
        text = "".join(f"{key}: {value}\n" for key, value in facts.items()) + "\n"
        path = OUT / f"{NAMES[self.name]}-v1.bin"
        path.write_bytes(text.encode() + b"".join(columns.values()))
        print(f"{path.name}: {path.stat().st_size} bytes; {dict(sorted(self.seen.items()))}", flush=True)


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        recorder = Recorder(name)
        recorder.play()
        recorder.write()
