#include "train/loop/injection.h"

#include <fmt/format.h>

#include <charconv>

namespace muster {

static constexpr std::string_view kNames[] = {"kill", "hang", "nan"};

Result<Injection> parse_injection(std::string_view text) {
  const auto refuse = [&] {
    return Error(Code::invalid_argument,
                 fmt::format("'{}' is not an injection; write kill:rank=R,step=S (or hang:…, "
                             "nan:…), ranks from 0, steps from 1",
                             text));
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return refuse();
  Injection injection;
  const std::string_view name = text.substr(0, colon);
  bool known = false, rank_given = false;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) injection.kind = static_cast<Injection::Kind>(i), known = true;
  }
  if (!known) return refuse();
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t equal = item.find('=');
    if (equal == std::string_view::npos) return refuse();
    int64_t number = 0;
    const std::string_view digits = item.substr(equal + 1);
    const auto [end, status] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (status != std::errc{} || end != digits.data() + digits.size() || number < 0 ||
        number > INT32_MAX)
      return refuse();
    if (item.substr(0, equal) == "rank")
      injection.rank = Rank{static_cast<int32_t>(number)}, rank_given = true;
    else if (item.substr(0, equal) == "step")
      injection.step = number;
    else
      return refuse();
  }
  if (!rank_given || injection.step < 1) return refuse();
  return injection;
}

std::string injection_text(const Injection& injection) {
  return fmt::format("{}:rank={},step={}", kNames[static_cast<size_t>(injection.kind)],
                     injection.rank.value, injection.step);
}

}  // namespace muster
