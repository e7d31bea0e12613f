// <cuda_runtime.h>: nothing that device.h does not give already.

#pragma once
