#!/usr/bin/env bash
# Makes virtual environments for the peers, at the versions that the README's numbers speak of:
# setup.sh [DIR], by default .peers (about 5 GB).
set -euo pipefail
dir=${1:-.peers}
mkdir -p "$dir"
make_env() {
    python3 -m venv "$dir/$1"
    "$dir/$1/bin/pip" install --quiet --upgrade pip
}
make_env torch
"$dir/torch/bin/pip" install --quiet torch==2.11.0 stable-baselines3==2.9.2 envpool==1.2.5 \
    "gymnasium[mujoco]==1.4.0" mujoco==3.17.0 ale-py==0.12.1 opencv-python-headless
make_env sf
"$dir/sf/bin/pip" install --quiet "setuptools<70" wheel torch==2.11.0 "numpy<2" sample-factory==2.1.1
make_env jax
"$dir/jax/bin/pip" install --quiet rejax==0.1.3 "gymnax<1.0"
