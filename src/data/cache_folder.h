// Where a user's programs keep what can be made again: trained tokenizers, unpacked corpora. The
// same for all processes of one user, ranks included.
#pragma once

#include <map>
#include <string>

namespace muster {

// $MUSTER_CACHE, else $XDG_CACHE_HOME/muster, else ~/.cache/muster.
std::string cache_folder(const std::map<std::string, std::string>& environment);

// Inside it: compressed sources, unpacked (spool.h).
std::string spool_folder(const std::map<std::string, std::string>& environment);

}  // namespace muster
