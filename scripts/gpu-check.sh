#!/usr/bin/env bash
# Checks hotloop on one NVIDIA GPU: the same results as on the CPU, and how fast and how busy it is.
#
#     scripts/gpu-check.sh                        # builds with the PyTorch of python3, then checks
#     scripts/gpu-check.sh --bin ./hotloop        # checks a program that was built elsewhere
#     scripts/gpu-check.sh --dry-run              # no GPU: prints the plan and does all of it on the CPU
#
# Needs Linux, one NVIDIA GPU with nvidia-smi, Python 3.9 with PyTorch 2.11 (its libtorch is used), and no network:
# cargo's dependencies must be there already, or --bin. A program built elsewhere must be of libtorch 2.11 as well; one
# build serves CPU and GPU. With a program at hand it takes under 10 minutes, which --minutes limits; a dry run makes
# fewer steps. The table goes to standard output. Exits with 1 if something differs or fails, and says what.
set -euo pipefail

usage() {
    sed -n '2,/^set /p' "$0" | sed -e '/^set /d' -e 's/^# \{0,1\}//'
}

python=python3 bin='' out='' device=cuda minutes=10 dry=false
while [ $# -gt 0 ]; do
    case $1 in
    --python | --bin | --out | --device | --minutes)
        [ $# -ge 2 ] || { echo "gpu-check: $1 needs a value" >&2; exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    --dry-run)
        dry=true
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        echo "gpu-check: unknown argument $1" >&2
        usage >&2
        exit 2
        ;;
    esac
done

root=$(cd "$(dirname "$0")/.." && pwd)
out=${out:-$(mktemp -d)}
mkdir -p "$out"
failures=()
fail() {
    failures+=("$*")
    echo "FAILED: $*"
}
die() {
    echo "gpu-check: $*" >&2
    exit 1
}
note() { echo "== $*"; }

# The device under test against the one compared with. Without a GPU it is the CPU by a GPU's copies.
if $dry; then
    there=(--device cpu --set staged=true)
    steps=1 envs=16 tolerance=1e-6
else
    there=(--device "$device")
    steps=64 envs=256 tolerance=1e-3
fi

note "plan: doctor; the first update of PPO on CPU and ${there[*]}, for a perceptron, a convolution, an LSTM, and in bf16;"
note "plan: training of CartPole, MinAtar Breakout and 84x84x4 images on ${there[*]}, with steps/s and the GPU's busy time;"
note "plan: evaluation of the trained CartPole policy on both; logs and runs in $out"

command -v "$python" >/dev/null || die "no $python; name another by --python"
if ! $dry; then
    command -v nvidia-smi >/dev/null || die "no nvidia-smi: this machine has no NVIDIA driver (--dry-run needs none)"
    torch=$("$python" -c 'import os, torch; print(torch.__version__.split("+")[0], os.path.dirname(torch.__file__))') ||
        die "$python cannot import torch; install PyTorch 2.11 or name another by --python"
    case $torch in
    2.11.*) ;;
    *) die "PyTorch is $torch; hotloop is built with 2.11" ;;
    esac
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    if [ -n "$bin" ]; then
        # Wins over the folder that the program was linked to look in.
        export LD_LIBRARY_PATH="${torch#* }/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    fi
fi
if [ -z "$bin" ]; then
    note "build"
    cd "$root"
    $dry || CARGO_NET_OFFLINE=true cargo xtask setup --from-python "$python"
    CARGO_NET_OFFLINE=true cargo build --release --package hotloop-cli --bin hotloop
    bin=${CARGO_TARGET_DIR:-$root/target}/release/hotloop
fi
[ -x "$bin" ] || die "$bin cannot be run"

# From here on the clock runs: what is left of the minutes bounds every command.
SECONDS=0
hotloop() {
    local log=$1 left=$((minutes * 60 - SECONDS))
    shift
    [ $left -gt 0 ] || { fail "no time left for: hotloop $*"; return 1; }
    timeout "$left" "$bin" "$@" >"$out/$log.out" 2>"$out/$log.err" || {
        fail "hotloop $* (exit $?); the end of $out/$log.err: $(tail -n 3 "$out/$log.err" | tr '\n' ' ')"
        return 1
    }
}

# Compares the numbers of the first update, made by equal weights on rows that the same seed drew.
same_update() {
    "$python" - "$@" <<'PY'
import json, math, sys

one, other, tolerance = sys.argv[1], sys.argv[2], float(sys.argv[3])
first, second = (json.loads(open(f"{run}/metrics.jsonl").readline()) for run in (one, other))
keys = ["entropy", "policy_loss", "value_loss", "grad_norm", "approx_kl"]
worst = max(keys, key=lambda key: abs(first[key] - second[key]) / (1 + abs(first[key])))
print(f"   largest difference: {worst} {first[worst]:.7g} and {second[worst]:.7g}")
reasons = []
for key in keys:
    a, b = first[key], second[key]
    if not (math.isfinite(a) and math.isfinite(b)) or abs(a - b) > tolerance * (1 + abs(a)):
        reasons.append(f"{key} is {a} and {b}")
for key in ["uploads_per_batch", "downloads_per_batch"]:
    if second.get(key) != 1:
        reasons.append(f"{key} is {second.get(key)}, not 1")
if reasons:
    sys.exit("; ".join(reasons))
PY
}

compare() {
    local name=compare-$1 bound=$2 what=$3
    shift 3
    note "${name/-/ }"
    hotloop "$name-cpu" train "$what" --seed 3 --steps 1 --device cpu --run-dir "$out/$name-cpu" "$@" || return 0
    # In full single precision: a GPU's convolutions round to 10 bits otherwise. `also` is set for the other one alone.
    NVIDIA_TF32_OVERRIDE=0 hotloop "$name" train "$what" --seed 3 --steps 1 --run-dir "$out/$name" "$@" "${there[@]}" "${also[@]}" || return 0
    same_update "$out/$name-cpu" "$out/$name" "$bound" || fail "$name: CPU and ${there[*]} ${also[*]} differ"
}

# Which share of the time the GPU computed, sampled five times a second.
watch_gpu() {
    $dry && return
    nvidia-smi --id="$(echo "$device" | tr -dc 0-9 | sed 's/^$/0/')" --query-gpu=utilization.gpu \
        --format=csv,noheader,nounits --loop-ms=200 >"$out/$1.busy" &
    watcher=$!
}
busy() {
    $dry && { echo n/a; return; }
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    awk '/^[0-9]/ { sum += $1; n++ } END { if (n) printf "%.0f %%", sum / n; else printf "unknown" }' "$out/$1.busy"
}

rows=()
train() {
    local name=$1 what=$2 n=$3
    shift 3
    note "train $name"
    watch_gpu "$name"
    local ok=true share
    hotloop "$name" train "$what" --steps "$n" --run-dir "$out/$name" --json "$@" "${there[@]}" || ok=false
    share=$(busy "$name")
    $ok || return 0
    rows+=("$("$python" - "$out/$name.out" "$name" "$share" <<'PY'
import json, sys

report = json.loads(open(sys.argv[1]).read().splitlines()[-1])
mean = report["return_mean_100"]
mean = "none" if mean is None else f"{mean:.1f}"
print(f"{sys.argv[2]:<16} {report['env_steps']:>9} {report['steps_per_s']:>12,.0f} {sys.argv[3]:>9} {mean:>10}")
PY
)")
}

note "doctor"
hotloop doctor doctor || true

small=(--set rollout.envs="$envs" --set rollout.horizon=32 --set algo.epochs=1 --set algo.minibatches=1)
image=(--set env.options.pixels=84 --set rollout.envs=16 --set rollout.horizon=8 --set network.body=nature-cnn
    --set algo.epochs=1 --set algo.minibatches=1)
also=()
compare perceptron "$tolerance" cartpole "${small[@]}"
compare convolution "$tolerance" minatar-breakout "${small[@]}"
compare images "$tolerance" Synthetic/Busy-v0 "${image[@]}"
compare lstm "$tolerance" cartpole "${small[@]}" --set network.recurrent=lstm
# In bf16 some actions are others than in f32: what an update says of its rows is near, and no more.
also=(--set network.inference_dtype=bf16)
compare bf16 0.2 cartpole "${small[@]}"

train cartpole cartpole $((8000 * steps))
train minatar-breakout minatar-breakout $((16384 * steps)) --set rollout.envs="$envs"
train images Synthetic/Busy-v0 $((4096 * steps)) "${image[@]}" --set rollout.envs="$envs" --set rollout.horizon=16 \
    --set algo.minibatches=4

note "evaluate"
if [ -d "$out/cartpole" ]; then
    for where in cpu "${there[1]}"; do
        hotloop "eval-$where" eval "$out/cartpole" --episodes 20 --json --device "$where" || continue
    done
    "$python" - "$out/eval-cpu.out" "$out/eval-${there[1]}.out" <<'PY' || fail "evaluations on CPU and ${there[1]} differ"
import json, sys

first, second = (json.loads(open(path).read())["return_mean"] for path in sys.argv[1:])
print(f"   return {first} on the CPU, {second} on the device")
if abs(first - second) > 0.05 * abs(first) + 1:
    sys.exit(1)
PY
fi

echo
printf '%-16s %9s %12s %9s %10s\n' run 'env steps' steps/s busy 'return'
printf '%s\n' "${rows[@]}"
echo
if [ ${#failures[@]} -gt 0 ]; then
    echo "gpu-check: ${#failures[@]} failed after $SECONDS s:"
    printf '  %s\n' "${failures[@]}"
    exit 1
fi
echo "gpu-check: all well after $SECONDS s"
