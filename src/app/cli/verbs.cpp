// The table of verbs. Each function is defined in the file of its name.
#include "app/cli/verb.h"

namespace muster {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {};
  return table;
}

}  // namespace muster
