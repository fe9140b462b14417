// KernelChoices: fast mode's choices of all ranks (ops/gemm_chooser.h), as a checkpoint's manifest
// records them: "gemm.NT M N K beta" -> "own" or "vendor" where all ranks that met the shape agree,
// else one word a rank ("own - vendor"), "-" for a rank that has not met it. Pure functions.
#pragma once

#include <map>
#include <span>
#include <string>

namespace muster {

// `texts`: GemmChooser::to_text() of every rank.
std::map<std::string, std::string> join_kernel_choices(std::span<const std::string> texts);

// The lines for GemmChooser::restore() of one rank. A rank that the recording run did not have
// takes what rank 0 took. `choices` may hold others, which are passed over.
std::string kernel_choices_of(const std::map<std::string, std::string>& choices, int rank);

}  // namespace muster
