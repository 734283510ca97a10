"""CUDA devices of this machine, by NVML: no import of torch is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from killpoint.errors import CannotWork

NVML = "libnvidia-ml.so.1"


def cuda_devices(library: Callable[[str], Any] = ctypes.CDLL) -> int:
    """Return the number of CUDA devices.

    Raises:
        CannotWork: there is no driver, or it does not answer.
    """
    try:
        nvml = library(NVML)
    except OSError as error:
        raise CannotWork(f"device cuda: no driver is here: {error}") from error
    failed: int = nvml.nvmlInit_v2()
    if failed:
        raise CannotWork(f"device cuda: the driver cannot be asked: NVML error {failed}")
    try:
        count = ctypes.c_uint()
        failed = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        if failed:
            raise CannotWork(f"device cuda: the devices cannot be counted: NVML error {failed}")
        return count.value
    finally:
        nvml.nvmlShutdown()


def require(device: str, library: Callable[[str], Any] = ctypes.CDLL) -> None:
    """Check that the requested device is present.

    Raises:
        CannotWork: it is not.
    """
    if device == "cuda" and not cuda_devices(library):
        raise CannotWork("device cuda: the driver has no device here")
