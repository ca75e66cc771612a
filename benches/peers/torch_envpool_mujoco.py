"""PPO in plain PyTorch on one EnvPool MuJoCo environment, with the settings of the preset `halfcheetah`.
usage: torch_envpool_mujoco.py TASK [SEED] [TOTAL_STEPS]   (venv: torch)"""
import sys, time
import envpool
import numpy as np
import torch
from torch import nn

task = sys.argv[1]
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
total = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
T, minibatches, epochs, gamma, lam, clip = 2048, 32, 10, 0.99, 0.95, 0.2
torch.set_num_threads(1)  # 64 rows are too few to share
torch.manual_seed(seed)
np.random.seed(seed)
env = envpool.make_gymnasium(task, num_envs=1, num_threads=1, seed=seed)
n, m = env.observation_space.shape[0], env.action_space.shape[0]
low, high = env.action_space.low, env.action_space.high


class Moments:
    """Running mean and variance (Chan et al.)."""

    def __init__(self, shape):
        self.mean, self.var, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def add(self, x):
        delta, count = x - self.mean, self.count + 1
        self.mean = self.mean + delta / count
        self.var = (self.var * self.count + delta**2 * self.count / count) / count
        self.count = count


def layer(inputs, outputs, gain=2**0.5):
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


def mlp(outputs, gain):
    return nn.Sequential(layer(n, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, gain))


actor, critic, log_std = mlp(m, 0.01), mlp(1, 1.0), nn.Parameter(torch.zeros(1, m))
params = [*actor.parameters(), log_std, *critic.parameters()]
opt = torch.optim.Adam(params, 3e-4, eps=1e-5)
seen, gains, discounted = Moments(n), Moments(()), 0.0


def normalized(obs):
    seen.add(obs)
    return torch.from_numpy(np.clip((obs - seen.mean) / np.sqrt(seen.var + 1e-8), -10, 10)).float()


def policy(x):
    return torch.distributions.Normal(actor(x), log_std.exp().expand(x.shape[0], m))


obs, done, score, last = normalized(env.reset()[0][0]), 0.0, 0.0, []
start, updates = time.perf_counter(), total // T
for update in range(updates):
    opt.param_groups[0]["lr"] = 3e-4 * (1 - update / updates)
    O, A, LP = torch.zeros(T, n), torch.zeros(T, m), torch.zeros(T)
    R, D, V = torch.zeros(T), torch.zeros(T + 1), torch.zeros(T + 1)
    for t in range(T):
        with torch.no_grad():
            dist = policy(obs[None])
            a = dist.sample()
            O[t], A[t], D[t], LP[t], V[t] = obs, a[0], done, dist.log_prob(a).sum(), critic(obs[None])
        raw, r, term, trunc, _ = env.step(np.clip(a.numpy(), low, high).astype(np.float64))
        score += r[0]
        discounted = discounted * gamma * (1 - done) + r[0]
        gains.add(discounted)
        R[t], done = np.clip(r[0] / np.sqrt(gains.var + 1e-8), -10, 10), float(term[0] or trunc[0])
        if done:
            # EnvPool gives the next first observation only at the next step, which ignores its action.
            last, score = [*last[-99:], score], 0.0
            raw = env.step(np.zeros((1, m)))[0]
        obs = normalized(raw[0])
    with torch.no_grad():
        V[T], D[T] = critic(obs[None]), done
    adv, carry = torch.zeros(T), 0.0
    for t in reversed(range(T)):
        going = 1 - D[t + 1]
        carry = R[t] + gamma * V[t + 1] * going - V[t] + gamma * lam * going * carry
        adv[t] = carry
    ret = adv + V[:T]
    for _ in range(epochs):
        for i in torch.randperm(T).split(T // minibatches):
            dist, value = policy(O[i]), critic(O[i])[:, 0]
            ratio = (dist.log_prob(A[i]).sum(1) - LP[i]).exp()
            g = (adv[i] - adv[i].mean()) / (adv[i].std() + 1e-8)
            loss = -torch.min(ratio * g, ratio.clamp(1 - clip, 1 + clip) * g).mean()
            near = V[i] + (value - V[i]).clamp(-clip, clip)
            errors = torch.max((value - ret[i]).square(), (near - ret[i]).square())
            loss = loss + 0.5 * 0.5 * errors.mean()
            opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(params, 0.5); opt.step()
wall = time.perf_counter() - start
print(
    f"torch+envpool {task} seed={seed} steps={updates * T} wall_s={wall:.1f} return_mean_100={np.mean(last):.1f} "
    f"steps_per_s={updates * T / wall:.0f}"
)
