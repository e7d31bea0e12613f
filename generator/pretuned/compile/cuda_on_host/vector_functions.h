// <vector_functions.h>: the make_ functions stand with the types.

#pragma once

#include "vector_types.h"
