"""A policy that hotloop trained, in numpy alone.

`python3 numpy_policy.py RUN < observations.json` prints the greedy actions for a JSON list of observations. For policies
of fully connected layers on vectors; choices are counted from 0, box actions are not clipped."""

import json
import pathlib
import sys
import tomllib

import numpy as np
from checkpoint import read


class Policy:
    def __init__(self, run, name="last"):
        self.tensors, state = read(run, name)
        config = tomllib.loads(pathlib.Path(run, "config.toml").read_text())
        tower = "trunk" if config["network"]["shared"] else "actor"
        self.layers = [f"{tower}.{i}" for i in range(len(config["network"]["hidden"]))]
        self.activation = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}[state["activation"]]
        self.mean, self.scale, self.clip = 0.0, 1.0, np.inf
        if config["normalize"]["observations"]:
            count, self.mean, m2 = (self.tensors[f"normalize.observations.{part}"] for part in ("count", "mean", "m2"))
            self.scale, self.clip = (m2 / count + 1e-8) ** -0.5, config["normalize"]["observation_clip"]

    def linear(self, key, x):
        return x @ self.tensors[f"weights.{key}.weight"].T + self.tensors[f"weights.{key}.bias"]

    def act(self, observations):
        x = np.clip((observations - self.mean) * self.scale, -self.clip, self.clip)
        for layer in self.layers:
            x = self.activation(self.linear(layer, x))
        head = self.linear("policy", x)
        return head if "weights.log_std" in self.tensors else head.argmax(1)


if __name__ == "__main__":
    print(json.dumps(Policy(sys.argv[1]).act(np.array(json.load(sys.stdin))).tolist()))
