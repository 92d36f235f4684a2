// Stands in for the CUDA header of this name.
#pragma once
#include "cuda_on_cpu.h"
