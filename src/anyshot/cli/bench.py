"""`anyshot bench`: how fast this machine is at what experiments do."""

from __future__ import annotations

import json as json_format
from typing import Any

from anyshot.cli.device import use_device
from anyshot.cli.options import Device, LearnerName, OutFile, PresetName
from anyshot.errors import InputError
from anyshot.learners.catalogue import LEARNERS
from anyshot.runs.presets import preset as find_preset
from anyshot.runs.settings import list_settings


def bench(
    preset: PresetName = "rainbow-mnist",
    learner: LearnerName = "ftml-vs",
    repeats: int = 3,
    device: Device = "auto",
    json: OutFile = None,
) -> None:
    """Measure the time of one update and of one online step with evaluation and log.

    The default has the paper's sizes on random images and needs no data. It takes one to two minutes on two cores, most
    of it to compile. Other presets use their data. On a CPU compare ratios, not milliseconds.

    Args:
        preset: an online one, whose sizes are used; `anyshot presets` lists them.
        learner: the method; `anyshot learners` lists them.
        repeats: how often each is measured; the median counts.
        device: where to compute; auto takes a GPU if JAX finds one.
        json: a file to write the figures to; only a new or a regular file.
    """
    from anyshot.atomic import write_beside, write_text

    assert preset is not None
    assert learner is not None
    found = find_preset(preset)
    LEARNERS.find(learner)
    if found.protocol.kind != "online":
        raise InputError(f"--preset must be an online preset, {preset} is {found.protocol.kind}")
    if repeats < 1:
        raise InputError(f"--repeats must be at least 1, got {repeats}")
    if json is not None:
        with write_beside(json):
            pass  # so that a file that cannot be written is refused now
    print(f"{learner} with the sizes of {preset}: starting JAX", flush=True)
    use_device(device, list_settings(found, learner).get("learner.batching", "together"))
    from anyshot.runs.drive import describe_environment
    from anyshot.runs.timing import make_timing_experiment, time_experiment

    experiment = make_timing_experiment(preset, learner)
    timing = time_experiment(experiment, repeats, lambda line: print(f"{line} ...", flush=True))
    figures: dict[str, Any] = {
        "preset": preset,
        "learner": learner,
        "compile_update_s": timing.compile_update,
        "compile_online_s": timing.compile_online,
        "update_ms": 1e3 * timing.update,
        "first_step_ms": 1e3 * timing.first_step,
        "last_step_ms": 1e3 * timing.last_step,
        "last_step_to_update": timing.last_step / timing.update,
        "update_memory_mb": timing.memory and timing.memory / 1e6,
        "device_peak_mb": timing.peak and timing.peak / 1e6,
        "environment": describe_environment(),
    }
    _print_figures(figures, "meta-gradient" if "episodes" in experiment.learner.wants else "gradient")
    if json is not None:
        write_text(json, json_format.dumps(figures, indent=1) + "\n")
        print(f"figures: {json}")


def _print_figures(figures: dict[str, Any], gradient: str) -> None:
    rows = {
        f"{gradient} and optimiser": f"{figures['update_ms']:10.2f} ms",
        "online step, first task": f"{figures['first_step_ms']:10.2f} ms",
        "online step, last task": f"{figures['last_step_ms']:10.2f} ms, {figures['last_step_to_update']:.2f} times the "
        f"{gradient}",
        f"compiling the {gradient}": f"{figures['compile_update_s']:10.1f} s",
        "compiling the online loop": f"{figures['compile_online_s']:10.1f} s",
        f"memory of the {gradient}": _megabytes(figures["update_memory_mb"]),
        "most memory on the device": _megabytes(figures["device_peak_mb"]),
    }
    for name, value in rows.items():
        print(f"{name:28s}{value}")
    where = figures["environment"]
    versions = ", ".join(f"{name} {where[name]}" for name in ("anyshot", "jax", "numpy", "python"))
    print(f"{where['device']} ({where['devices']} JAX devices, {where['machine']}), {versions}")


def _megabytes(value: float | None) -> str:
    return "   unknown" if value is None else f"{value:10.0f} MB"
