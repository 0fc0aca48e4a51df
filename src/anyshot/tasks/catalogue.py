"""All task sets: what each is, where its files come from, and its fingerprint."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyshot.errors import InputError
from anyshot.registry import keyword_defaults
from anyshot.tasks.store import DataFile

if TYPE_CHECKING:
    from anyshot.tasks.built import Built

Setting = int | str  # a value of a setting of a task set


@dataclass(frozen=True)
class Entry:
    """One task set of the catalogue.

    Attributes:
        summary: what it is, in one line.
        build: "module:function" that builds it from its files.
        made_of: "module:class" of the task set.
        version: goes up when what is built changes.
        fingerprint: of the set with seed 0 and the default settings.
        built_megabytes: size of the built arrays.
        licence: of the data.
        check: "module:function" that refuses settings out of range; it is called before anything is downloaded.
        files: the raw files; none if the set needs no download.
        varies_with: software on which the built numbers depend.
        instead: a path under $ANYSHOT_DATA with the user's own files, which can replace `files`.
    """

    summary: str
    build: str
    made_of: str
    version: int
    fingerprint: str
    built_megabytes: int
    licence: str
    check: str = ""
    files: tuple[DataFile, ...] = ()
    varies_with: str = ""
    instead: str = ""

    def builder(self) -> Callable[..., Built]:
        """The function that builds it: (files, seed, *, settings) -> Built."""
        return _import(self.build)

    def kind(self) -> Any:
        """`TaskSet` or a subclass of it."""
        return _import(self.made_of)

    def settings(self) -> dict[str, Setting]:
        """The settings and their defaults."""
        return keyword_defaults(self.builder())

    def check_settings(self, settings: dict[str, Setting]) -> None:
        """Raise `InputError` for settings out of range; those that are not given have their defaults."""
        if self.check:
            _import(self.check)(**self.settings() | settings)


def _import(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(f"anyshot.tasks.{module}"), name)


def find_entry(name: str) -> Entry:
    """The entry of this name; an unknown name is refused with the nearest one."""
    if not isinstance(name, str):
        raise InputError(f"name must be the name of a task set, such as 'rainbow-digits', got {name!r}")
    if name not in CATALOGUE:
        near = difflib.get_close_matches(name, CATALOGUE, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"there is no task set {name!r}; {hint}there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def _mnist(name: str, size: int, sha256: str) -> DataFile:
    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
    plain = name.removesuffix(".gz")
    also = (f"MNIST/raw/{name}", f"MNIST/raw/{plain}", f"mnist/{plain}", plain)  # the first two as in torchvision
    return DataFile("mnist", name, sha256, size, "gzip", tuple(f"{mirror}/{name}" for mirror in mirrors), also)


def _omniglot(name: str, size: int, sha256: str) -> DataFile:
    places = ("https://raw.githubusercontent.com", "https://github.com")
    paths = ("brendenlake/omniglot/master/python", "brendenlake/omniglot/raw/master/python")
    urls = tuple(f"{place}/{path}/{name}" for place, path in zip(places, paths, strict=True))
    return DataFile("omniglot", name, sha256, size, "zip", urls, (f"omniglot-py/{name}",))


def _miniimagenet(name: str, size: int, sha256: str) -> DataFile:
    how = (
        "get mini-ImageNet's 60,000 JPEGs from ImageNet (image-net.org, free for research after signing its terms) and "
        "train.csv, val.csv, test.csv from twitter-research/meta-learning-lstm; put the JPEGs into "
        "$ANYSHOT_DATA/miniimagenet/images and the csv files beside that folder; or, if you have the packed file,"
    )
    return DataFile("miniimagenet", name, sha256, size, how_to_get=how)


MESHES = DataFile(
    "pose_meshes",
    "pascal3d_cad.zip",
    "74f8d4784f7bcaf8ad8d9415a41aaca04234ff27082af16bf053fa46d0171a57",
    11_814_019,
    "zip",
    how_to_get=(
        "get PASCAL3D+ release 1.1 from Stanford's Computational Vision and Geometry Lab (cvgl.stanford.edu/projects/"
        "pascal3d.html) and put PASCAL3D+_release1.1.zip into $ANYSHOT_DATA; or, if you have the packed meshes,"
    ),
)

CATALOGUE = {
    "rainbow-digits": Entry(
        "56 looks (colour, scale, rotation) of the 1,797 digits that scikit-learn bundles, 16x16; embedded",
        build="rainbow:rainbow_digits",
        check="rainbow:check_rainbow_digits",
        made_of="taskset:TaskSet",
        version=2,
        fingerprint="da16d05633fe39c98323285cf43566ccc39e8860fb8ec5ab9c730983344946ed",
        built_megabytes=15,
        licence="UCI optical digits, CC BY 4.0",
    ),
    "sinusoid": Entry(
        "sine waves of random amplitude and phase; embedded",
        build="sinusoid:sinusoid",
        check="sinusoid:check_sinusoid",
        made_of="taskset:TaskSet",
        version=2,
        fingerprint="c3f67f8f6ac857f3717ed9695a9f415e3acb0f795e9ee8d617a77c5d9f8d975c",
        built_megabytes=1,
        licence="none needed",
        varies_with="another NumPy",
    ),
    "rainbow-mnist": Entry(
        "56 looks of MNIST digits: 7 colours x 2 scales x 4 rotations, 900 images each, 28x28",
        build="rainbow:rainbow_mnist",
        check="rainbow:check_rainbow_mnist",
        made_of="taskset:TaskSet",
        version=2,
        fingerprint="a401b73befdc55429f7391a9147407f0e5519000ae2131f504b8d235c99dd6d3",
        built_megabytes=119,
        licence="MNIST, CC BY-SA 3.0",
        files=(
            _mnist(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            _mnist(
                "train-labels-idx1-ubyte.gz", 28_881, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
            ),
        ),
    ),
    "contextual-miniimagenet": Entry(
        "100 classes of mini-ImageNet; is a query image of the reference image's class? 84x84",
        build="miniimagenet:contextual_miniimagenet",
        check="miniimagenet:check_miniimagenet",
        made_of="pairs:PairTasks",
        version=2,
        fingerprint="75303cb2b68cf9ab0ea92ecd1c29ed6a1e37904b195c8d4b7a1e4880227135dd",
        built_megabytes=1270,
        licence="ImageNet terms: research and education, no redistribution",
        files=(
            _miniimagenet(
                "train_0.npz", 41_190_688, "db5fc47925261067a8460d214cea12374b0650ac88d16c200a797bccddda6ab7"
            ),
            _miniimagenet(
                "train_1.npz", 42_003_818, "dc226efe59a1a462be3918ffc3ecb0b2231710ccf2e100539cdd53f9c72c4a0b"
            ),
            _miniimagenet("val.npz", 20_227_041, "7d32a78f9dd1cfb6be376adfa7d23fcaeb7a7440b01b8afe5002482b8f2bfdcb"),
            _miniimagenet("test.npz", 25_790_907, "497d33f08e329f33165c7918cb90e89f679fbe852a119c5c3479a8d72ab8b342"),
            _miniimagenet("classes.csv", 4_489, "fd6ee6af7d533ce7f6bd3a4153c97ade20c9faa8958f552f720764cdb75428a8"),
        ),
        varies_with="another JPEG decoder",
        instead="miniimagenet/images",
    ),
    "pose": Entry(
        "orientation of 65 objects (PASCAL3D+ meshes), each seen by its own camera, grey 128x128",
        build="pose:pose",
        check="pose:check_pose",
        made_of="taskset:TaskSet",
        version=2,
        fingerprint="4e077eb8910dab0a891927b1ef5b62eb0ab551443360666a71c288d265f17df7",  # drawn by Mesa's software
        built_megabytes=160,
        licence="PASCAL3D+: research, no redistribution; renders with MuJoCo (Apache 2.0)",
        files=(MESHES,),
        varies_with="another OpenGL",
        instead="PASCAL3D+_release1.1.zip",
    ),
    "omniglot": Entry(
        "1,623 characters x 4 rotations x 20 drawings for N-way K-shot episodes, 28x28",
        build="omniglot:omniglot",
        check="omniglot:check_omniglot",
        made_of="ways:ClassTasks",
        version=2,
        fingerprint="ae2515061515535cfd84dad9c23247459d1f27fbea105682c594670bb8e2acf6",
        built_megabytes=102,
        licence="Omniglot, MIT",
        files=(
            _omniglot(
                "images_background.zip", 9_464_212, "ec2e7f7e1a9da68bb55654a9f3e8730ee6a24de50f65c860bed44a50b726d358"
            ),
            _omniglot(
                "images_evaluation.zip", 6_462_886, "a29196fd4b6b92cc680d23cd7cb9603907aa3fa21ad20b9b406e67541496e42f"
            ),
        ),
        varies_with="another Pillow",
    ),
}
