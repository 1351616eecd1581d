// vector.h — all of vector: data-parallel arrays (docs/vector.md).
#pragma once

#include "farside/vector/array.h"
#include "farside/vector/gather.h"
#include "farside/vector/ghost.h"
#include "farside/vector/matrix.h"
#include "farside/vector/move.h"
#include "farside/vector/reduce.h"
#include "farside/vector/world.h"
