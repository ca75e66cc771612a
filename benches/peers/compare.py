"""Runs hotloop and its peers in turn, nothing else beside them, and prints one table with ratios.

usage: compare.py [--peers .peers] [--hotloop PATH] [--repeats 3]
                  [--only rollout,train,mujoco,mujoco-train,gymnasium,atari,atari-policy] [--all]

`setup.sh` makes the peers' environments. Every number is the best of the repeats, which a noisy machine
distorts least; hotloop and the peer that it is held against are measured alternately, so that a slow minute
hits both.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# num_envs, batch_size, threads: the settings among which EnvPool's best one is found.
ENVPOOL_SETTINGS = [(64, 32, 2), (256, 128, 2), (1024, 256, 2), (1024, 1024, 2), (4096, 1024, 2), (1024, 1024, 1)]
ENVPOOL_MUJOCO = [(2, 2, 2), (8, 4, 2), (8, 8, 2), (16, 8, 2), (64, 32, 2), (64, 64, 2)]
ENVPOOL_ATARI = [(2, 2, 2), (8, 4, 2), (8, 8, 2), (16, 8, 2), (32, 16, 2), (64, 32, 2), (64, 64, 2)]
ALE_POLICY = [(16, 16, 2), (64, 32, 2), (64, 64, 2), (128, 64, 2)]
PPO = [1024, 64, 4, 4]  # envs, horizon, minibatches, epochs
# A fifth of hotloop's million: each of their updates does the same work, and they take long.
PEERS_STEPS = 204_800


def run(command):
    """Runs a command and returns its standard output; its own noise is shown only if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def rate(text):
    found = re.search(r"steps_per_s=(\d+)", text)
    if not found:
        sys.exit(f"no steps_per_s in: {text}")
    return float(found.group(1))


class Runners:
    def __init__(self, args):
        self.args = args

    def python(self, env, script, *parts):
        return run([self.args.peers / env / "bin" / "python", HERE / script, *parts])

    def hotloop(self, scenario, *parts):
        out = run([self.args.hotloop, "bench", scenario, "--json", *parts])
        return float(json.loads(out[out.index("{") : out.rindex("}") + 1])["steps_per_s"])

    def envpool(self, setting, task="CartPole-v1"):
        return rate(self.python("torch", "envpool_steps.py", task, *setting))

    def best_envpool(self, settings, task):
        return self.best("EnvPool", settings, lambda setting: self.envpool(setting, task))

    def best(self, whose, settings, measure):
        tried = {setting: measure(setting) for setting in settings}
        best = max(tried, key=tried.get)
        print(f"{whose}'s best setting of {len(tried)}: envs, batch, threads = {best}", file=sys.stderr)
        return best

    def train_mujoco(self, script):
        return rate(self.python("torch", script, "HalfCheetah-v5", 1, PEERS_STEPS))

    def hotloop_acting(self, env, *parts):
        """With the network of Mnih et al. 2015, one body for policy and value, on four frames."""
        settings = ("env.frame_stack=4", "network.body=nature-cnn", "network.shared=true")
        pairs = [word for setting in settings for word in ("--set", setting)]
        return self.hotloop("acting", "--env", env, *pairs, *parts, "--seconds", 6)

    def hotloop_train(self, preset):
        with tempfile.TemporaryDirectory() as folder:
            out = run([self.args.hotloop, "train", preset, "--run-dir", Path(folder) / "run", "--json"])
        return float(re.findall(r'"steps_per_s":([\d.]+)', out)[-1])

    def bare_mujoco(self, task):
        return rate(run([self.args.hotloop.parent / "examples" / "bare", task, 2]))

    def gymnasium_vector(self, task, envs):
        return rate(self.python("torch", "gymnasium_vector_steps.py", task, envs))

    def ale_vector(self, setting, game):
        return rate(self.python("torch", "ale_vector_steps.py", game, *setting))

    def ale_vector_policy(self, setting, game):
        return rate(self.python("torch", "ale_vector_policy.py", game, *setting))

    def bare_ale(self, game):
        out = run([self.args.hotloop.parent / "examples" / "speed", game, 2, 4])
        return float(re.findall(r"emulator (\d+) steps/s", out)[-1])

    def rejax(self):
        envs, horizon, minibatches, epochs = PPO
        return rate(self.python("jax", "rejax_ppo.py", envs, horizon, minibatches, epochs, 40 * envs * horizon))

    def torch_envpool(self):
        envs, horizon, minibatches, epochs = PPO
        return rate(self.python("torch", "torch_envpool_ppo.py", envs, horizon, minibatches, epochs, 20 * envs * horizon))

    def sb3(self):
        return rate(self.python("torch", "sb3_ppo.py", 64, 64, 1024, 4, 131072))

    def sample_factory(self):
        with tempfile.TemporaryDirectory() as folder:
            out = self.python(
                "sf", "sample_factory_ppo.py", "--env=cartpole", "--experiment=x", f"--train_dir={folder}",
                "--device=cpu", "--num_workers=2", "--num_envs_per_worker=64", "--worker_num_splits=2",
                "--batch_size=4096", "--num_batches_per_epoch=2", "--num_epochs=4", "--rollout=64",
                "--use_rnn=False", "--encoder_mlp_layers", "64", "64", "--train_for_seconds=45", "--async_rl=True",
            )  # fmt: skip
        return max(float(x) for x in re.findall(r"Fps is \(10 sec: ([\d.]+)", out) or re.findall(r"FPS: ([\d.]+)", out))


def alternately(repeats, jobs):
    """The best of each job's numbers, the jobs taking turns."""
    seen = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            seen[name].append(job())
            print(f"  {name}: {seen[name][-1]:,.0f}", file=sys.stderr)
    return {name: max(values) for name, values in seen.items()}


def table(title, rows, base):
    print(f"\n{title}\n\n| what | steps/s | × {base} |\n|---|---:|---:|")
    for name, value in rows.items():
        print(f"| {name} | {value:,.0f} | {value / rows[base]:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path(".peers"))
    parser.add_argument("--hotloop", type=Path, default=Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "hotloop")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="rollout,train", help="rollout, train, mujoco, mujoco-train, gymnasium, atari, atari-policy")
    parser.add_argument("--all", action="store_true", help="also the slower peers: PyTorch, Stable-Baselines3, Sample Factory")
    args = parser.parse_args()
    r = Runners(args)
    only = args.only.split(",")

    if "rollout" in only:
        best = r.best_envpool(ENVPOOL_SETTINGS, "CartPole-v1")
        blocks = {"4096 × 1": (4096, 1), "1024 × 16": (1024, 16), "256 × 64": (256, 64)}
        jobs = {"EnvPool": lambda: r.envpool(best)}
        for name, (actors, each) in blocks.items():
            jobs[f"hotloop {name}"] = lambda a=actors, e=each: r.hotloop(
                "rollout", "--env", "CartPole-v1", "--actors", a, "--envs-per-actor", e)
        table("CartPole-v1, stepping, actions drawn beforehand", alternately(args.repeats, jobs), "EnvPool")

    if "train" in only:
        jobs = {
            "rejax": r.rejax,
            "hotloop": lambda: r.hotloop("train"),
            "hotloop, shared trunk": lambda: r.hotloop("train", "--set", "network.shared=true"),
        }
        if args.all:
            jobs |= {"PyTorch + EnvPool": r.torch_envpool, "Stable-Baselines3": r.sb3, "Sample Factory": r.sample_factory}
        table("PPO on CartPole-v1, 1,024 envs × 64 steps, 4 epochs × 4 minibatches", alternately(args.repeats, jobs), "rejax")

    # Needs both built with the feature: `cargo xtask mujoco`, then
    # `cargo build --release -p hotloop-cli --features mujoco` and the example `bare` of hotloop-mujoco.
    for task in ["HalfCheetah-v5", "Ant-v5"] if "mujoco" in only else []:
        best = r.best_envpool(ENVPOOL_MUJOCO, task)
        jobs = {
            "EnvPool": lambda: r.envpool(best, task),
            "bare mj_step on 2 threads": lambda: r.bare_mujoco(task),
            "hotloop 16 × 1": lambda: r.hotloop("rollout", "--env", task, "--actors", 16, "--envs-per-actor", 1),
            "hotloop 4 × 4": lambda: r.hotloop("rollout", "--env", task, "--actors", 4, "--envs-per-actor", 4),
        }
        table(f"{task}, stepping, actions drawn beforehand", alternately(args.repeats, jobs), "EnvPool")

    # hotloop steps the same environments with the same interpreter.
    if "mujoco-train" in only:
        jobs = {
            "PyTorch + EnvPool": lambda: r.train_mujoco("torch_envpool_mujoco.py"),
            "Stable-Baselines3": lambda: r.train_mujoco("sb3_mujoco.py"),
            "hotloop": lambda: r.hotloop_train("halfcheetah"),
        }
        title = "PPO on HalfCheetah-v5, 1 M steps (peers: a fifth), one environment, 2,048 steps, 10 epochs × 32 minibatches"
        table(title, alternately(args.repeats, jobs), "PyTorch + EnvPool")

    if "gymnasium" in only:
        os.environ["HOTLOOP_PYTHON"] = str((args.peers / "torch" / "bin" / "python").absolute())
        jobs = {
            "AsyncVectorEnv, 64 envs": lambda: r.gymnasium_vector("CartPole-v1", 64),
            "hotloop 4 × 16": lambda: r.hotloop(
                "rollout", "--env", "gymnasium:CartPole-v1", "--actors", 4, "--envs-per-actor", 16),
        }
        table("Gymnasium's CartPole-v1 in Python, stepping", alternately(args.repeats, jobs), "AsyncVectorEnv, 64 envs")

    # The same with `cargo xtask atari`, the feature `atari`, and the example `speed` of hotloop-atari.
    if "atari" in only:
        game, task, env = "pong", "Pong-v5", "ALE/Pong-v5"
        envpool = r.best_envpool(ENVPOOL_ATARI, task)
        vector = r.best("The ALE's vector env", ENVPOOL_ATARI, lambda setting: r.ale_vector(setting, game))
        stack = ("--set", "env.frame_stack=4")
        jobs = {
            "EnvPool": lambda: r.envpool(envpool, task),
            "the ALE's vector env": lambda: r.ale_vector(vector, game),
            "bare emulator on 2 threads": lambda: r.bare_ale(game),
            "hotloop 16 × 1": lambda: r.hotloop("rollout", "--env", env, *stack, "--actors", 16, "--envs-per-actor", 1),
            "hotloop 8 × 4": lambda: r.hotloop("rollout", "--env", env, *stack, "--actors", 8, "--envs-per-actor", 4),
        }
        table("Pong, 4 × 84 × 84, stepping, actions drawn beforehand", alternately(args.repeats, jobs), "EnvPool")

    # The emulator in Python, with the same interpreter, against the ALE's own vector env in C++.
    if "atari-policy" in only:
        os.environ["HOTLOOP_PYTHON"] = str((args.peers / "torch" / "bin" / "python").absolute())
        game, env = "pong", "ALE/Pong-v5"
        best = r.best("The ALE's vector env", ALE_POLICY, lambda setting: r.ale_vector_policy(setting, game))
        python = (
            "--set", "env.import=ale_py", "--set", "env.kwargs.frameskip=1",
            "--set", 'env.wrappers=["gymnasium.wrappers:AtariPreprocessing"]',
        )  # fmt: skip
        jobs = {
            "the ALE's vector env": lambda: r.ale_vector_policy(best, game),
            "hotloop, Gymnasium's 4 × 16": lambda: r.hotloop_acting(
                f"gymnasium:{env}", *python, "--actors", 4, "--envs-per-actor", 16),
            "hotloop, its own 32 × 1": lambda: r.hotloop_acting(env, "--actors", 32, "--envs-per-actor", 1),
        }
        table("Pong, 4 × 84 × 84, with a policy between steps", alternately(args.repeats, jobs), "the ALE's vector env")


if __name__ == "__main__":
    main()
