"""The ALE's own vector env: env steps/s with random actions. usage: ale_vector_steps.py GAME NUM_ENVS BATCH THREADS [SECONDS]   (venv: torch)"""
import sys, time
import ale_py
import numpy as np
from ale_py.vector_env import AtariVectorEnv

game, n, batch, threads = sys.argv[1], *map(int, sys.argv[2:5])
seconds = float(sys.argv[5]) if len(sys.argv) > 5 else 4.0
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
env = AtariVectorEnv(game, num_envs=n, batch_size=batch, num_threads=threads)
env.reset(seed=1)
rng = np.random.default_rng(1)
actions = rng.integers(0, env.single_action_space.n, size=(64, batch))
env.send(actions[0])


def run(duration):
    start, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < duration:
        env.recv()
        env.send(actions[steps // batch % 64])
        steps += batch
    return steps / elapsed


run(1.0)
print(f"ale_vector {game} envs={n} batch={batch} threads={threads} steps_per_s={run(seconds):.0f}")
