"""Time one meta-gradient in anyshot and in the peers a user would pick instead: `make bench`.

All are first checked to compute the same gradient. Times are the least of several rounds in which every implementation
takes its turn, so that a disturbance of the machine hits all alike; compare the ratios, not the milliseconds, on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs some of a GPU's memory as well

import jax
import numpy as np

import anyshot
from anyshot.networks.sizes import PRECISIONS

from . import ours
from .networks import NETWORKS
from .problem import Problem, arithmetic, make_problem

SIZES = ("tasks", "shots", "inner_steps", "validation")
AGREEMENT = 1e-3
LAX_CONV = "JAX vmap of lax.conv"


def main() -> int:
    settings = parse()
    if settings.peer:
        measure_peer(settings)
        return 0
    cores = anyshot.use_cpu_cores()
    device = jax.devices()[0]
    on_gpu = device.platform == "gpu"
    name = device.device_kind if on_gpu else f"CPU, {cores} cores"
    print(f"anyshot {anyshot.__version__}, JAX {jax.__version__}, {name}", flush=True)
    problem = problem_of(settings)
    print(
        f"one FTML-VS meta-gradient of {settings.network} {problem.network.shape}: {settings.tasks} tasks, "
        f"0..{settings.shots} shots and {settings.validation} validation points each, "
        f"{settings.inner_steps} inner steps, second order",
        flush=True,
    )
    if settings.mosaic:
        if not on_gpu or settings.network != "siamese":
            sys.exit(
                "error: --mosaic is for --network siamese on an NVIDIA GPU; elsewhere there is no large convolution"
            )
        from benchmarks import mosaic  # needs JAX 0.11.2

        mosaic.take_over()
    print("compiling anyshot ...", flush=True)
    us = ours.anyshot(problem, settings.precision)
    alone = {peer: in_own_process(peer, settings, on_gpu) for peer in peer_names(settings, on_gpu)}
    agreement = {peer: difference(us.result()[1], found["gradients"]) for peer, found in alone.items()}
    if on_gpu:  # JAX and PyTorch do not share a GPU well
        mine = best_times({"anyshot": us.run}, 3 * settings.rounds)["anyshot"]
        times = {peer: found["ms"] for peer, found in alone.items()}
    else:
        times = side_by_side(us, list(alone), problem, settings.rounds)
        mine = times.pop("anyshot")
    products = 1 if settings.precision == "half" else 3  # a GPU has no faster way to float32's accuracy
    rate = ours.float16_gflops() / products if on_gpu else ours.matmul_gflops()
    report: dict[str, Any] = {
        "device": name,
        "network": {"kind": settings.network, "shape": problem.network.shape, "channels": problem.network.channels},
        "precision": settings.precision,
        "mosaic": settings.mosaic,
        "size": {k: getattr(settings, k) for k in SIZES},
        "anyshot_ms": mine,
        "peers": times,
        "speedup_vs_best_peer": min(times.values()) / mine if times else None,
        "speedup_vs_loop": times["torch loop"] / mine if "torch loop" in times else None,
        "limit_ms": arithmetic(problem) / rate / 1e6,
        "compile_seconds": us.compile_seconds,
        "peak_memory_mb": us.memory_mb,
        "gradient_difference": agreement,
    }
    report["times_limit"] = mine / report["limit_ms"]
    if on_gpu:
        report["anyshot_in_loop_ms"] = in_loop_ms(us)
    report["peers_memory_mb"] = {peer: found["memory_mb"] for peer, found in alone.items()}
    print_table(report)
    if not settings.no_growth:
        report["growth"] = growth(settings, min(times, key=lambda peer: times[peer]) if times else None, on_gpu)
    path = Path(settings.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"wrote {path}")
    exact = settings.precision == "float32"
    wrong = {peer: d for peer, d in agreement.items() if exact and not d <= AGREEMENT}
    if wrong:
        print(f"error: gradients differ by more than {AGREEMENT}: {wrong}", file=sys.stderr)
    return 1 if wrong else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--network", choices=NETWORKS, default="conv4", help="what adapts (conv4)")
    parser.add_argument("--size", type=positive, help="height and width of an image (the network's usual one)")
    parser.add_argument("--channels", type=positive, help="of a convolution, or width of a hidden layer")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help="of our convolutions (float32)")
    parser.add_argument("--mosaic", action="store_true", help="large convolutions in Pallas on Mosaic GPU (Hopper)")
    parser.add_argument("--tasks", type=positive, default=25, help="tasks in a batch (25)")
    parser.add_argument("--shots", type=positive, default=20, help="most shots of a task (20)")
    parser.add_argument("--inner-steps", type=positive, default=5, help="inner gradient steps (5)")
    parser.add_argument("--validation", type=positive, default=20, help="validation points of a task (20)")
    parser.add_argument("--rounds", type=positive, default=10, help="rounds in which each implementation is timed (10)")
    parser.add_argument("--peers", nargs="*", help="which peers are timed (all that are installed)")
    parser.add_argument("--no-growth", action="store_true", help="leave out the second table")
    parser.add_argument("--out", default="benchmarks/out/meta_step.json", help="where the figures are written")
    parser.add_argument("--peer", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def problem_of(settings: argparse.Namespace, **changed: int) -> Problem:
    asked = {k: value for k in ("size", "channels") if (value := getattr(settings, k)) is not None}
    sizes = {k: getattr(settings, k) for k in SIZES}
    return make_problem(NETWORKS[settings.network](**asked), **(sizes | changed))


def peer_names(settings: argparse.Namespace, on_gpu: bool) -> list[str]:
    try:
        from . import torch_peers
    except ImportError:
        print("PyTorch is not installed: no peers to compare with (make bench installs it)", file=sys.stderr)
        return []
    # lax.conv takes a minute a step on a CPU
    names = [*torch_peers.available(), *([LAX_CONV] if on_gpu and settings.network == "conv4" else [])]
    unknown = set(settings.peers or ()) - set(names)
    if unknown:
        sys.exit(f"error: --peers: {', '.join(sorted(unknown))}; here are {', '.join(names)}")
    return names if settings.peers is None else settings.peers


def prepare_peer(name: str, problem: Problem) -> Any:
    if name == LAX_CONV:
        return ours.lax_conv_vmap(problem)
    import torch

    from . import torch_peers

    return torch_peers.prepare(name, problem, "cuda" if torch.cuda.is_available() else "cpu")


def in_own_process(peer: str, settings: argparse.Namespace, on_gpu: bool) -> dict[str, Any]:
    """A peer's time, memory and gradients, measured where nothing else runs."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "gradients.npz"
        command = [sys.executable, "-m", "benchmarks.meta_step", "--peer", peer, "--out", str(saved)]
        command += ["--rounds", str(settings.rounds if on_gpu else 1)]
        for option in (*SIZES, "network", "size", "channels"):
            if (value := getattr(settings, option)) is not None:
                command += ["--" + option.replace("_", "-"), str(value)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        with np.load(saved) as gradients:
            return {**json.loads(printed.splitlines()[-1]), "gradients": dict(gradients)}


def measure_peer(settings: argparse.Namespace) -> None:
    step = prepare_peer(settings.peer, problem_of(settings))
    before = process_memory_mb("VmRSS")
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    ms = best_times({"peer": step.run}, settings.rounds)["peer"]
    memory = process_memory_mb("VmHWM") - before
    if settings.peer != LAX_CONV:
        import torch

        memory = torch.cuda.max_memory_allocated() / 1e6 if torch.cuda.is_available() else memory
    else:
        memory = step.memory_mb
    np.savez(settings.out, **step.result()[1])
    print(json.dumps({"ms": ms, "memory_mb": memory}))


def process_memory_mb(field: str) -> float:
    if sys.platform != "linux":
        return float("nan")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 1e3


def side_by_side(us: ours.Compiled, peers: list[str], problem: Problem, rounds: int) -> dict[str, float]:
    return best_times({"anyshot": us.run, **{peer: prepare_peer(peer, problem).run for peer in peers}}, rounds)


def difference(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> float:
    """Largest relative difference over the weights' gradient as a whole, beta's and eta's."""
    assert mine.keys() == theirs.keys()
    weights = [name for name in mine if name not in ("beta", "eta")]
    pairs = [(np.concatenate([g[name].ravel() for name in weights]) for g in (mine, theirs))]
    pairs += [(g[name] for g in (mine, theirs)) for name in ("beta", "eta")]
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs)


def best_times(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def in_loop_ms(us: ours.Compiled, repeats: int = 50) -> float:
    us.run_in_loop(repeats)
    return best_times({"loop": lambda: us.run_in_loop(repeats)}, 3)["loop"] / repeats


def growth(settings: argparse.Namespace, peer: str | None, on_gpu: bool) -> list[dict[str, Any]]:
    """Times of anyshot and the fastest peer as one size changes and the others stay."""
    rows = []
    print(f"\n{'size':24}{'anyshot ms':>12}{peer or '':>22}", flush=True)
    for option, values in (("tasks", (5, 50)), ("shots", (5, 40)), ("inner_steps", (1, 10))):
        for value in values:
            problem = problem_of(settings, **{option: value})
            # On a GPU the peers need a process of their own; there this table is anyshot's alone.
            peers = [] if on_gpu or peer is None else [peer]
            row: dict[str, Any] = {"changed": option, "value": value}
            row |= side_by_side(ours.anyshot(problem, settings.precision), peers, problem, max(3, settings.rounds // 2))
            rows.append(row)
            other = "".join(f"{row[name]:22.1f}" for name in peers)
            print(f"{option + ' = ' + str(value):24}{row['anyshot']:12.1f}{other}", flush=True)
    return rows


def print_table(report: dict[str, Any]) -> None:
    print(f"\n{'implementation':32}{'ms':>10}{'anyshot is':>14}{'same gradient to':>20}{'memory MB':>12}")
    print(f"{'anyshot':32}{report['anyshot_ms']:10.1f}{'':34}{report['peak_memory_mb']:12.0f}")
    for peer, ms in report["peers"].items():
        faster = f"{ms / report['anyshot_ms']:.1f}x faster"
        print(
            f"{peer:32}{ms:10.1f}{faster:>14}{report['gradient_difference'][peer]:20.1e}{report['peers_memory_mb'][peer]:12.0f}"
        )
    print(
        f"{'arithmetic alone (unpadded)':32}{report['limit_ms']:10.1f}"
        f"  anyshot takes {report['times_limit']:.1f} times that"
    )
    if "anyshot_in_loop_ms" in report:
        print(f"{'anyshot, many steps a dispatch':32}{report['anyshot_in_loop_ms']:10.2f}")
    print(f"compiling anyshot took {report['compile_seconds']:.1f} s", flush=True)


sys.exit(main())
