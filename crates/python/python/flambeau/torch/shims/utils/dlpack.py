"""torch.utils.dlpack: the types of devices that the protocol knows."""

from __future__ import annotations

from enum import IntEnum


class DLDeviceType(IntEnum):
    """A type of device, by the number that it has in DLPack."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
