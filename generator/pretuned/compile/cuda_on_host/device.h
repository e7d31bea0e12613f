// All that a kernel may use without an #include.

#pragma once

#include "execution.h"

#include "intrinsics.h"

#include "atomics.h"

#include "names.h"
