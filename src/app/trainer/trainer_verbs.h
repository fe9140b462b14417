// The verbs of muster-trainer. Users meet `score` and `generate` through muster, which hands them
// over.
#pragma once

#include <string>
#include <vector>

#include "app/cli/verb.h"

namespace muster {

// One rank: joins the others, trains to the end. Under muster train it is forked from `template`.
int worker_main(World& world, const std::vector<std::string>& arguments);
// Warms up and then becomes a worker each time the keeper asks
// (runtime/supervise/template_server.h).
int template_main(World& world, const std::vector<std::string>& arguments);
int score_main(World& world, const std::vector<std::string>& arguments);
int generate_main(World& world, const std::vector<std::string>& arguments);

}  // namespace muster
