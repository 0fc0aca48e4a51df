"""`anyshot bench`: how fast this machine is at what experiments do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from anyshot.errors import InputError
from anyshot.learners.names import LEARNERS
from anyshot.runs.presets import PRESETS, preset

File = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]


def bench(
    preset: Literal[tuple(PRESETS)] = "rainbow-mnist",
    learner: Literal[tuple(LEARNERS)] = "ftml-vs",
    repeats: int = 3,
    device: Literal["auto", "cpu", "gpu"] = "auto",
    json: File = None,
) -> None:
    """Time one (meta-)update and one online step, evaluation and log included, on this machine.

    The default has the paper's sizes on random images, needs no data, and takes one to two minutes on two cores, most
    of it to compile. Other presets use their data. On a CPU compare ratios, not milliseconds.

    Args:
        preset: whose sizes are used; `anyshot presets` lists them.
        learner: the method; `anyshot learners` lists them.
        repeats: how often each is measured, by turns; the median counts.
        device: where to compute; auto takes a GPU if JAX finds one.
        json: a file to write the figures to as well; it is replaced if it is there.
    """
    _bench(preset, learner, repeats, device, json)


def _bench(name: str, learner: str, repeats: int, device: str, out: Path | None) -> None:
    from anyshot.cli.device import use_device
    from anyshot.report.writing import write_text

    settings = preset(name)
    if repeats < 1:
        raise InputError(f"--repeats must be at least 1, got {repeats}")
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise InputError(f"--json must be a file in a folder that is there, got {str(out)!r}")
    print(f"{learner} with the sizes of {name}: starting JAX", flush=True)
    use_device(device, settings.numbers.tasks)
    from anyshot.runs.driving import environment
    from anyshot.runs.experiment import Experiment
    from anyshot.runs.timing import time_experiment

    timing = time_experiment(Experiment(settings, learner, 0), repeats, lambda line: print(f"{line} ...", flush=True))
    where = environment()
    figures: dict[str, Any] = {
        "preset": name,
        "learner": learner,
        "compile_update_s": timing.compile_update,
        "compile_online_s": timing.compile_online,
        "update_ms": 1e3 * timing.update,
        "first_step_ms": 1e3 * timing.first_step,
        "last_step_ms": 1e3 * timing.last_step,
        "last_step_to_update": timing.last_step / timing.update,
        "update_memory_mb": timing.memory and timing.memory / 1e6,
        "device_peak_mb": timing.peak and timing.peak / 1e6,
        "environment": where,
    }
    for line in _told(figures):
        print(line)
    if out is not None:
        write_text(out, json.dumps(figures, indent=1) + "\n")
        print(f"figures: {out}")


def _told(figures: dict[str, Any]) -> list[str]:
    where = figures["environment"]
    what = "gradient" if figures["learner"] in ("toe", "a-gem") else "meta-gradient"
    ratio = f"{figures['last_step_to_update']:.2f} times the {what}"
    rows = {
        f"{what} and Adam's step": f"{figures['update_ms']:10.2f} ms",
        "online step, first task": f"{figures['first_step_ms']:10.2f} ms",
        "online step, last task": f"{figures['last_step_ms']:10.2f} ms, {ratio}",
        f"compiling the {what}": f"{figures['compile_update_s']:10.1f} s",
        "compiling the online loop": f"{figures['compile_online_s']:10.1f} s",
        f"memory of the {what}": _megabytes(figures["update_memory_mb"]),
        "most memory on the device": _megabytes(figures["device_peak_mb"]),
    }
    versions = ", ".join(f"{name} {where[name]}" for name in ("anyshot", "jax", "numpy", "python"))
    machine = f"{where['device']} ({where['devices']} JAX devices, {where['machine']}), {versions}"
    return [*(f"{name:28s}{value}" for name, value in rows.items()), machine]


def _megabytes(value: float | None) -> str:
    return "   unknown" if value is None else f"{value:10.0f} MB"


def main(words: list[str]) -> None:
    """Run the command."""
    tyro.cli(bench, args=words, prog="anyshot bench")
