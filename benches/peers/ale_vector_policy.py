"""The ALE's own vector env with a policy between steps: env steps/s. The network is that of Mnih et al. 2015 with one
body for policy and value, actions are drawn from it. usage: ale_vector_policy.py GAME NUM_ENVS BATCH THREADS [SECONDS]   (venv: torch)"""
import sys, time
import ale_py
import torch
from ale_py.vector_env import AtariVectorEnv
from torch import nn

game, n, batch, threads = sys.argv[1], *map(int, sys.argv[2:5])
seconds = float(sys.argv[5]) if len(sys.argv) > 5 else 6.0
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
env = AtariVectorEnv(game, num_envs=n, batch_size=batch, num_threads=threads)
body = nn.Sequential(
    nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
    nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
)  # fmt: skip
policy, value = nn.Linear(512, env.single_action_space.n), nn.Linear(512, 1)


@torch.inference_mode()
def act(observations):
    hidden = body(torch.from_numpy(observations).float() / 255)
    chosen = torch.distributions.Categorical(logits=policy(hidden))
    actions = chosen.sample()
    return actions.numpy(), chosen.log_prob(actions), value(hidden)


env.send(act(env.reset(seed=1)[0])[0])


def run(duration):
    start, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < duration:
        env.send(act(env.recv()[0])[0])
        steps += batch
    return steps / elapsed


run(2.0)
print(f"ale_vector+policy {game} envs={n} batch={batch} threads={threads} steps_per_s={run(seconds):.0f}")
