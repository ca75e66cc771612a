"""Stable-Baselines3 PPO on one Gymnasium MuJoCo environment, CPU, with the settings of the preset `halfcheetah`.
usage: sb3_mujoco.py TASK [SEED] [TOTAL_STEPS]   (venv: torch)"""
import sys, time
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

task = sys.argv[1]
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
total = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
torch.set_num_threads(1)  # 64 rows are too few to share
env = VecNormalize(make_vec_env(task, n_envs=1, seed=seed), gamma=0.99)
model = PPO(
    "MlpPolicy", env, learning_rate=lambda left: 3e-4 * left, n_steps=2048, batch_size=64, n_epochs=10, gamma=0.99,
    gae_lambda=0.95, clip_range=0.2, clip_range_vf=0.2, ent_coef=0.0, vf_coef=0.5, max_grad_norm=0.5, seed=seed,
    device="cpu",
)  # fmt: skip
start = time.perf_counter()
model.learn(total)
wall = time.perf_counter() - start
last = np.mean([episode["r"] for episode in model.ep_info_buffer])
print(
    f"sb3 {task} seed={seed} steps={model.num_timesteps} wall_s={wall:.1f} return_mean_100={last:.1f} "
    f"steps_per_s={model.num_timesteps / wall:.0f}"
)
