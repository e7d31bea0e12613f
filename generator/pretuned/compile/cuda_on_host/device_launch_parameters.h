// <device_launch_parameters.h>: nothing that device.h does not give already.

#pragma once
