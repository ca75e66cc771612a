"""Gymnasium's AsyncVectorEnv: env steps/s with random actions. usage: gymnasium_vector_steps.py ID NUM_ENVS [SECONDS]   (venv: torch, or .venv)"""
import sys, time
import gymnasium
import numpy as np


def main():
    name, n = sys.argv[1], int(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 4.0
    if name.startswith("ALE/"):
        import ale_py
        gymnasium.register_envs(ale_py)
    env = gymnasium.make_vec(name, num_envs=n, vectorization_mode="async")
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(64)]

    def run(duration):
        start, turns = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - start) < duration:
            env.step(actions[turns % len(actions)])
            turns += 1
        return turns * n / elapsed

    run(1.0)
    print(f"AsyncVectorEnv {name} envs={n} steps_per_s={run(seconds):.0f}")
    env.close()


if __name__ == "__main__":
    main()
