"""The environment of the drill: holds the program up in a phase, or does something bad. Each thing is done once in a run:
a file in the run's folder says that it was."""
import ctypes
import os
import resource
import signal
import subprocess
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def first(name):
    """Whether nobody has done this before; from now on somebody has."""
    try:
        os.close(os.open("did-" + name, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


# The first process makes one environment, to ask for its spaces.
PROBE = first("asking")


class Drill(gym.Env):
    """Episodes of five steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)
    made = 0

    def __init__(self, phase="", hold=0.0, kinds=()):
        self.phase, self.hold, self.lane = phase, hold, Drill.made
        self.kind = kinds[self.lane] if self.lane < len(kinds) else ""
        self.before = kinds[self.lane + 1:]
        Drill.made += 1
        # Would outlive it.
        self.child = subprocess.Popen(["sleep", "1000"])
        self.at = self.steps = self.resets = 0
        self.reach("probe" if PROBE else "constructor")

    def reach(self, phase):
        """Says that this phase was reached, and stays in it for a while."""
        if self.phase == phase and first(phase):
            time.sleep(self.hold)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        self.resets += 1
        if self.resets == 3:
            self.reach("reset")
            if self.kind == "reset":
                self.misbehave()
        return self.observe(), {}

    def step(self, action):
        self.at += 1
        self.steps += 1
        # With a horizon of eight: within the third rollout; the end of it; more than two lanes step while training.
        if self.steps == 20:
            self.reach("step")
        if self.steps == 24:
            self.reach("update")
        if self.steps == 30:
            self.reach("evaluation")
        if self.at == 2 and self.kind not in ("", "reset"):
            self.misbehave()
        return self.observe(), 1.0, self.at == 5, False, {}

    def observe(self):
        return np.array([self.at], np.float32)

    def close(self):
        if not PROBE:
            self.reach("shutdown")

    def misbehave(self):
        """In one turn after the other, so that each is alone to blame: the last lane first."""
        if all(os.path.exists("did-" + kind) for kind in self.before) and first(self.kind):
            getattr(self, "do_" + self.kind)()

    def do_raise(self):
        raise ValueError("boom-42")

    do_reset = do_raise

    def do_leave(self):
        os._exit(7)

    def do_hang(self):
        time.sleep(60)

    def do_stop(self):
        os.kill(os.getpid(), signal.SIGSTOP)

    def do_kill(self):
        """Somebody else kills it."""
        with open("victim.part", "w") as file:
            file.write(str(os.getpid()))
        os.rename("victim.part", "victim")
        time.sleep(60)

    def do_segv(self):
        ctypes.string_at(0)

    def do_memory(self):
        """Eats until there is no more: 128 MiB above what it has."""
        with open("/proc/self/statm") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + (1 << 27)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        hoard = []
        while True:
            hoard.append(b"x" * (1 << 24))


gym.register("Drill-v0", Drill)
