// arrays.h — all of the module arrays: data-parallel arrays (docs/arrays.md).
#pragma once

#include "farside/arrays/array.h"
#include "farside/arrays/gather.h"
#include "farside/arrays/ghost.h"
#include "farside/arrays/matrix.h"
#include "farside/arrays/move.h"
#include "farside/arrays/reduce.h"
#include "farside/arrays/world.h"
