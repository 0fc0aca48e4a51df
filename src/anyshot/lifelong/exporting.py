"""The predictor of one task in one file, which runs where there is JAX but no anyshot."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array, Float, Shaped
from sklearn.linear_model import Ridge

from anyshot.errors import InputError
from anyshot.lifelong.experts import Experts
from anyshot.lifelong.from_scratch import FromScratch
from anyshot.lifelong.home import Home
from anyshot.lifelong.learning import Learned, Learning
from anyshot.lifelong.on_features import OnFeatures
from anyshot.lifelong.progress import name_experts
from anyshot.lifelong.record import Record
from anyshot.lifelong.with_kernel import WithKernel
from anyshot.runs.files import replace_file, writing
from anyshot.version import __version__

FORMAT = 1
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")

Predict = Callable[[Array], Array]  # from one input to the probability of each class, or to the target


def export_task(home: Home, record: Record, path: Path) -> None:
    """Write the predictor of a task as it is now.

    The file is a zip with two entries. `predictor.bin` is a program of `jax.export` for any number of inputs, on any
    platform that JAX has. In it are the adapted network, the models of the task's own labels and their weights, all as
    numbers. The kernel compares with the inputs that have a label, so these are in it, shifted and scaled. `about.json`
    says what goes in and comes out, and how many inputs are in the program. See `Task.export` for how to load it. JAX
    promises to read such a program for six months of later versions.

    Args:
        home: of all tasks.
        record: the task.
        path: of the file.
    """
    home.check_open()
    with home.changing:
        learning, setup = home.learning, home.setup
        if learning is None or (learning.classification and not record.classes):
            raise InputError(
                f"there is nothing to export yet: the inputs or the classes of task {record.name!r} are not known; "
                "observe labels, or predict, first"
            )
        learned, weights = learning.now, record.progress.mixture.weights
        own = Experts(record, home.store).fit(learning, learned)
        experts = [
            _bake_learner(learning, learned, record),
            _translate_scratch(own.scratch),
            _translate_kernel(own.kernel),
        ]
        if own.on_features is not None:
            experts.append(_translate_on_features(own.on_features, learned))
        about = {
            "format": FORMAT,
            "task": record.name,
            "labels": record.count,
            "inputs_held": own.kernel.count,
            "kind": setup.kind,
            "classes": record.classes,
            **{name: setup.describe()[name] for name in ("shape", "dtype", "scalar", "encoder")},
            "weights": name_experts(weights),
            "versions": {"anyshot": __version__, "jax": jax.__version__},
        }

    def predict(x: Shaped[Array, "n ..."]) -> Float[Array, "n ..."]:
        each = jnp.stack([jax.vmap(expert)(x).astype(jnp.float32) for expert in experts])
        mixed = jnp.tensordot(jnp.asarray(weights, jnp.float32), each, axes=1, precision=lax.Precision.HIGHEST)
        return (mixed[:, 0] if setup.kind == "targets" and setup.scalar else mixed).astype(jnp.float32)

    example = jax.ShapeDtypeStruct((*export.symbolic_shape("n"), *learning.shape), np.dtype(learning.dtype))
    program = export.export(jax.jit(predict), platforms=PLATFORMS)(example).serialize()
    _write_zip(path, {"predictor.bin": bytes(program), "about.json": json.dumps(about, indent=1).encode()})


def _bake_learner(learning: Learning, learned: Learned, record: Record) -> Predict:
    """The learner adapted to the labels. What does not depend on the input is computed now."""
    slots = np.array(record.info["slots"], np.int32)
    support = learning.support(record.labelled(), learned)

    def predict(x: Array) -> Array:
        with jax.ensure_compile_time_eval():
            outputs = learned.engine.learner.predict(learned.state, support, x[None])[0]
        return jax.nn.softmax(outputs[slots]) if learning.classification else outputs

    baked = jaxpr_as_fun(jax.make_jaxpr(predict)(learned.engine.problem.example[0]))
    return lambda x: baked(x)[0]


def _translate_scratch(scratch: FromScratch) -> Predict:
    """`FromScratch.predict` for JAX."""
    on_numbers = _translate_linear(scratch)
    return lambda x: on_numbers(_flatten(x))


def _translate_kernel(fitted: WithKernel) -> Predict:
    """`WithKernel.predict` for JAX."""
    model, seen, prior = fitted.model, fitted.seen, jnp.asarray(fitted.prior)
    if model is None:
        return lambda x: prior
    if seen is None:
        return lambda x: model(x[None])[0]
    return lambda x: prior.at[seen].set(jax.nn.softmax(model(x[None])[0, seen]) * prior[seen].sum())


def _translate_on_features(linear: OnFeatures, learned: Learned) -> Predict:
    """`OnFeatures.predict` for JAX."""
    on_numbers = _translate_linear(linear.linear)

    def predict(x: Array) -> Array:
        features = learned.engine.learner.features(learned.state, x[None])
        assert features is not None, "the learner has features"
        return on_numbers(jnp.concatenate([_flatten(x), linear.scale * features[0]]))

    return predict


def _flatten(x: Shaped[Array, "..."]) -> Float[Array, " numbers"]:
    return x.reshape(-1) / 255 if x.dtype == jnp.uint8 else x.reshape(-1)


def _translate_linear(scratch: FromScratch) -> Predict:
    """The linear model, as a function of a vector of numbers."""
    model, prior = scratch.model, jnp.asarray(scratch.prior)
    if model is None:
        return lambda x: prior
    weight, bias = jnp.asarray(model.coef_), jnp.asarray(model.intercept_)

    def predict(flat: Array) -> Array:
        outputs = jnp.matmul(weight, flat, precision=lax.Precision.HIGHEST) + bias
        if isinstance(model, Ridge):
            return outputs
        logits = jnp.concatenate([jnp.zeros(1), outputs]) if len(outputs) == 1 else outputs
        return prior.at[model.classes_].set(jax.nn.softmax(logits) * prior[model.classes_].sum())

    return predict


def _write_zip(path: Path, entries: dict[str, bytes]) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    with writing(path.parent, "export again"):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content.getvalue())
