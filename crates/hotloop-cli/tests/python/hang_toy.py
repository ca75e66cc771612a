"""An environment that hangs where a file in the current folder says, and counts its ends there."""
import os
import time

import gymnasium as gym
import numpy as np


class Hang(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    made = 0

    def __init__(self, render_mode=None, start=0):
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(2, start=start)
        Hang.made += 1
        self.pass_through("constructor")

    def pass_through(self, place):
        """Hangs if there is a file hang-PLACE, or hang-PLACE-N in a process of N: once only, or raises, if it
        says so."""
        for file in ("hang-" + place, "hang-%s-%d" % (place, Hang.made)):
            if not os.path.exists(file):
                continue
            with open(file) as how:
                how = how.read()
            if how == "raise":
                raise ValueError("boom-42")
            if how == "once":
                os.remove(file)
            open("hangs", "w").close()
            while True:
                time.sleep(0.01)

    def reset(self, *, seed=None, options=None):
        self.pass_through("reset")
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.pass_through("step")
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == 5, False, {}

    def render(self):
        self.pass_through("render")
        return np.zeros((2, 2, 3), np.uint8)

    def close(self):
        self.pass_through("close")
        time.sleep(0.05)
        with open("closed", "a") as file:
            file.write("closed\n")


gym.register("Hang-v0", Hang)
