#!/usr/bin/env python3
"""Trains presets with several seeds, evaluates what they learned, and prints the table of docs/learning.md.

    cargo build --release -p hotloop-cli
    python3 scripts/learning_curves.py                       # all but what takes long, one run after another
    python3 scripts/learning_curves.py cartpole bench-fast   # these rows only
    python3 scripts/learning_curves.py 'minatar-*'           # MinAtar: five games, half an hour or more
    python3 scripts/learning_curves.py 'mujoco-*'            # MuJoCo: needs the feature, and half an hour
    python3 scripts/learning_curves.py lunar-lander          # in Python: needs `cargo xtask python`
    python3 scripts/learning_curves.py pong                  # Atari: needs the feature, and an hour or two
    python3 scripts/learning_curves.py --seeds 1-3 --runs curves cartpole

Needs nothing but Python 3.9. The table goes to standard output, one line per run to standard error. With
--runs the run directories stay: their metrics.jsonl hold the curves. Exits with 1 if a row failed.
"""

import argparse
import json
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH_RATE = "algo.learning_rate=2.5e-3"
# An environment, the return of training's last 100 episodes that is wanted, and of which seed.
MUJOCO = {
    "halfcheetah": (1600, "mean"),
    "walker2d": (2600, "mean"),
    "hopper": (2200, "mean"),
    "inverted-double-pendulum": (8000, "median"),
}
# A game and the return that is wanted: far above a random policy's, which is some 3 in Space Invaders and below 1 elsewhere.
MINATAR = {"breakout": 15, "asterix": 3, "freeway": 40, "seaquest": 3, "space-invaders": 130}


@dataclass(frozen=True)
class Row:
    """One row of the table: what is trained, and what counts as learned."""

    name: str
    preset: str
    threshold: float
    seeds: int = 5
    needed: int = 5
    settings: tuple[str, ...] = ()
    # Evaluated with actions drawn from the policy, as published results of these games are.
    sampled: bool = False
    # Takes long: trained only if it is named.
    on_demand: bool = False
    # What has to reach the threshold instead of each seed's evaluation: this, of the last 100 returns of training.
    over_seeds: str = ""

    def train(self, seed):
        """The arguments of `hotloop` that train it."""
        pairs = [word for setting in self.settings for word in ("--set", setting)]
        return ["train", self.preset, *pairs, "--seed", str(seed)]

    def wanted(self, names):
        """Whether it is one of the rows named."""
        return any(fnmatch(self.name, name) for name in names) if names else not self.on_demand

    def evaluate(self, place):
        """The arguments of `hotloop` that evaluate the run in `place`."""
        return ["eval", str(place), *(["--sampled"] if self.sampled else [])]


ROWS = [
    Row("cartpole", "cartpole", 475, seeds=10, needed=10),
    Row("acrobot", "acrobot", -90),
    Row("pendulum", "pendulum", -180),
    Row("mountain-car", "mountain-car", -115),
    Row("mountain-car-continuous", "mountain-car-continuous", 90),
    Row("bench-fast", "bench", 475, needed=4, settings=(BENCH_RATE, "network.fast=true")),
    Row("bench-plain", "bench", 475, needed=4, settings=(BENCH_RATE, "network.fast=false")),
    *(
        Row(f"minatar-{game}", f"minatar-{game}", threshold, seeds=3, needed=3, sampled=True, on_demand=True)
        for game, threshold in MINATAR.items()
    ),
    *(
        Row(f"mujoco-{preset}", preset, threshold, on_demand=True, over_seeds=over_seeds)
        for preset, (threshold, over_seeds) in MUJOCO.items()
    ),
    Row("lunar-lander", "lunar-lander", 200, seeds=3, needed=3, on_demand=True),
    Row("pong", "pong", -12, seeds=2, needed=2, sampled=True, on_demand=True),
]


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    steps: int
    seconds: float
    training: float
    evaluation: float

    def __str__(self):
        return (
            f"{self.steps:,} env steps in {self.seconds:.1f} s, last 100 episodes {self.training:.1f}, "
            f"evaluation {self.evaluation:.1f}"
        )


def hotloop(binary, arguments):
    """The JSON object that a command of hotloop prints."""
    command = [str(binary), *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"`{shlex.join(command)}` ended with {done.returncode}:\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def run(options, row, seed, folder):
    """Trains once and evaluates the final weights."""
    place = folder / f"{row.name}-{seed}"
    arguments = [*row.train(seed), "--threads", str(options.threads), "--run-dir", str(place)]
    trained = hotloop(options.binary, arguments)
    played = hotloop(
        options.binary,
        [*row.evaluate(place), "--episodes", str(options.episodes), "--seed", str(options.eval_seed)],
    )
    return Outcome(
        trained["env_steps"], trained["wall_s"], trained["return_mean_100"], played["return_mean"]
    )


def of(numbers, worst, digits):
    """A mean beside its worst case, for example `-81.3 (-84.1)`."""
    return f"{statistics.mean(numbers):.{digits}f} ({worst(numbers):.{digits}f})"


def interval(numbers, resamples=10_000):
    """Where 95 % of the means of resampled seeds lie (percentile bootstrap): `[1,502, 1,890]`."""
    draw = random.Random(0).choices
    means = sorted(statistics.mean(draw(numbers, k=len(numbers))) for _ in range(resamples))
    low, high = means[resamples // 40], means[-1 - resamples // 40]
    return f"[{low:,.0f}, {high:,.0f}]"


def verdict(row, outcomes):
    """Whether the row came out as wanted, and how the table says it."""
    training = [o.training for o in outcomes]
    if row.over_seeds:
        reached = getattr(statistics, row.over_seeds)(training)
        return reached >= row.threshold, f"{row.over_seeds} {reached:,.0f}"
    passed = sum(o.evaluation >= row.threshold for o in outcomes)
    return passed >= len(outcomes) - (row.seeds - row.needed), f"{passed}/{len(outcomes)}"


def line(row, outcomes):
    """The row in Markdown."""
    training = [o.training for o in outcomes]
    columns = [
        row.name,
        f"{max(o.steps for o in outcomes):,}",
        of([o.seconds for o in outcomes], max, 1),
        of(training, min, 1) + (f" {interval(training)}" if row.over_seeds else ""),
        of([o.evaluation for o in outcomes], min, 1) + (", sampled" if row.sampled else ", greedy"),
        f"≥ {row.threshold:g}",
        verdict(row, outcomes)[1],
        f"`hotloop {shlex.join(row.train('N'))}`",
    ]
    return "| " + " | ".join(columns) + " |"


HEADER = """\
| row | env steps | seconds of training: mean (longest) | last 100 episodes of training: mean (worst seed) \
[95 % of bootstrapped means] | evaluation: mean (worst seed), actions | wanted | seeds that reach it | command, for seed N |
|---|---|---|---|---|---|---|---|"""


def seeds(text):
    """`1-5` as a range."""
    first, dash, last = text.partition("-")
    chosen = range(int(first), int(last if dash else first) + 1)
    if not chosen:
        raise ValueError("an empty range")
    return chosen


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="rows of the table, * for any; all but what takes long if none is named")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/hotloop")
    parser.add_argument("--seeds", type=seeds, help="for example 1-5; each row has its own default")
    parser.add_argument("--threads", type=int, default=0, help="as `hotloop train`; changes no result")
    parser.add_argument("--episodes", type=int, default=100, help="of each evaluation")
    parser.add_argument("--eval-seed", type=int, default=1000, help="of the evaluation's episodes")
    parser.add_argument("--runs", type=pathlib.Path, help="keep the run directories here")
    options = parser.parse_args()
    for name in options.rows:
        if not any(row.wanted([name]) for row in ROWS):
            parser.error(f"there is no row {name!r}; the rows are {', '.join(r.name for r in ROWS)}")
    if not options.binary.is_file():
        parser.error(
            f"{options.binary} is not there; build it with `cargo build --release -p hotloop-cli`, "
            "or name another with --binary"
        )
    return options


def table(options, folder):
    """Runs everything and prints the table; whether all rows came out as wanted."""
    print(HEADER, flush=True)
    good = True
    for row in ROWS:
        if not row.wanted(options.rows):
            continue
        outcomes = []
        for seed in options.seeds or range(1, row.seeds + 1):
            outcome = run(options, row, seed, folder)
            print(f"{row.name}, seed {seed}: {outcome}", file=sys.stderr, flush=True)
            outcomes.append(outcome)
        good &= verdict(row, outcomes)[0]
        print(line(row, outcomes), flush=True)
    return good


def main():
    options = arguments()
    if options.runs:
        options.runs.mkdir(parents=True, exist_ok=True)
        return table(options, options.runs)
    with tempfile.TemporaryDirectory(prefix="hotloop-learning-") as folder:
        return table(options, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
