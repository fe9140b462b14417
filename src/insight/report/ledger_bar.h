// LedgerBar: the goodput ledger as one stacked bar, inline SVG. Pure.
#pragma once

#include <string>

#include "insight/ledger/ledger.h"

namespace muster {

// Empty text for an empty ledger. Every leaf with time has a segment of its own (at least a
// hairline), named by its tooltip; wide ones carry their name.
std::string ledger_bar_svg(const Ledger& ledger);

// "leaf-step-compute": colours come from the page's style.
std::string leaf_css_class(Leaf leaf);

}  // namespace muster
