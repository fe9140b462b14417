// TemplateServer: the template side of forked ranks. A template process warms up (loads libraries,
// reads what all ranks need), stays single-threaded, and then becomes a rank each time the keeper
// asks: fork takes milliseconds where a cold start takes seconds.
//
//   int main(int argc, char** argv) {
//     if (!is_template()) return work(argc, argv);
//     warm_up();
//     MUSTER_TRY(TemplateChild child, serve_template());   // returns once per forked rank
//     return work(child.argv);
//   }
//
// A forked rank is a child of the keeper, as if the keeper had executed it: it leads a session and
// a group of its own, its environment, directory, standard streams and passed descriptors are those
// of its SpawnSpec, and it gets SIGKILL when the keeper dies. The template may die without the
// ranks noticing.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace muster {

// Set by the supervisor for template processes: the descriptor of the keeper's socket.
inline constexpr const char* kTemplateFdVariable = "MUSTER_TEMPLATE_FD";

// Whether this process was started as a template.
bool is_template();

struct TemplateChild {
  std::vector<std::string> argv;
};

// Tells the keeper that the template is warm and serves fork requests. In each forked rank it
// returns; in the template itself it does not return but exits with 0 when the keeper closes the
// socket. Errors: invalid_argument when this is no template; unsupported when the process has more
// than one thread (named in the message), which the keeper is told as well.
Result<TemplateChild> serve_template();

}  // namespace muster
