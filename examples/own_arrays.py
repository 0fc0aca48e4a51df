"""Own arrays: train TOE and FTML-VS on 20 tasks, compare them, and predict on a new task with 0, 3 and 10 labels."""

import sys

import numpy as np

import anyshot

draw = np.random.default_rng(0)  # a task is a direction in space; a point is 1 if it lies on that side
inputs, directions = draw.normal(size=(21, 100, 8)).astype(np.float32), draw.normal(1.0, 0.7, (21, 8))
labels = (np.einsum("tnd,td->tn", inputs, directions) > 0).astype(np.int32)
tasks = anyshot.TaskSet.from_arrays(list(zip(inputs[:20], labels[:20], strict=True)), test_size=50)
rules = anyshot.OnlineProtocol(max_steps=50, steps_per_arrival=5, max_shots=10, tasks_per_update=5, test_size=50)

if "predict" not in sys.argv:
    network = {"kind": "mlp", "hidden": (32,)}
    for name, more in {"toe": {}, "ftml-vs": {"inner_rate": 0.5}}.items():
        learner = anyshot.make_learner(name, tasks, rules, network=network, meta_rate=3e-3, **more)
        print(anyshot.run(anyshot.Experiment(tasks, learner, rules, seed=0), f"own-runs/{name}", progress=False))
    print(anyshot.compare("own-runs")[0].table)
    print(anyshot.write_report("own-runs", "own-runs/report.html"))
else:  # another process: python own_arrays.py predict
    run = anyshot.load_run("own-runs/ftml-vs")
    for shots in (0, 3, 10):
        outputs = run.predict((inputs[20, :shots], labels[20, :shots]) if shots else None, inputs[20, 50:])
        print(f"{shots} labels: {np.mean(outputs.argmax(axis=1) == labels[20, 50:]):.2f} right on a new task")
