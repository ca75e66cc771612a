"""A policy that hotloop trained, as a PyTorch module.

`python3 torch_policy.py RUN < observations.json` prints the greedy actions for a JSON list of observations. For policies
of fully connected layers on vectors; choices are counted from 0, box actions are not clipped."""

import json
import pathlib
import sys
import tomllib

import torch
from checkpoint import read
from torch import nn


class Policy(nn.Module):
    def __init__(self, run, name="last"):
        super().__init__()
        tensors, state = read(run, name)
        config = tomllib.loads(pathlib.Path(run, "config.toml").read_text())
        tower = "trunk" if config["network"]["shared"] else "actor"
        activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[state["activation"]]
        tensor = {key: torch.tensor(array.astype("f4")) for key, array in tensors.items() if array.dtype.kind == "f"}

        def linear(key):
            weight, bias = tensor[f"weights.{key}.weight"], tensor[f"weights.{key}.bias"]
            layer = nn.Linear(weight.shape[1], weight.shape[0])
            layer.load_state_dict({"weight": weight, "bias": bias})
            return layer

        layers = range(len(config["network"]["hidden"]))
        self.hidden = nn.Sequential(*(f for i in layers for f in (linear(f"{tower}.{i}"), activation())))
        self.head = linear("policy")
        self.chooses = "weights.log_std" not in tensors
        self.mean, self.scale, self.clip = torch.zeros(()), torch.ones(()), torch.inf
        if config["normalize"]["observations"]:
            count, m2 = int(tensors["normalize.observations.count"][0]), tensor["normalize.observations.m2"]
            self.mean, self.scale = tensor["normalize.observations.mean"], (m2 / count + 1e-8).rsqrt()
            self.clip = config["normalize"]["observation_clip"]

    def forward(self, observations):
        """Logits or means of the actions."""
        x = ((observations - self.mean) * self.scale).clamp(-self.clip, self.clip)
        return self.head(self.hidden(x))

    @torch.no_grad()
    def act(self, observations):
        head = self(observations)
        return head.argmax(1) if self.chooses else head


if __name__ == "__main__":
    print(json.dumps(Policy(sys.argv[1]).act(torch.tensor(json.load(sys.stdin))).tolist()))
