#include "train/loop/kernel_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace muster {
namespace {

constexpr std::string_view kPrefix = "gemm.";
constexpr std::string_view kUnknown = "-";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::map<std::string, std::string> join_kernel_choices(std::span<const std::string> texts) {
  std::map<std::string, std::vector<std::string_view>> words;  // by key: a word a rank
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    for (const std::string_view line : split(texts[rank], '\n')) {
      const size_t space = line.rfind(' ');
      auto& word = words[fmt::format("{}{}", kPrefix, line.substr(0, space))];
      word.resize(texts.size(), kUnknown);
      word[rank] = line.substr(space + 1);
    }
  }
  std::map<std::string, std::string> choices;
  for (const auto& [key, list] : words) {
    const std::string_view known =
        *std::find_if(list.begin(), list.end(), [](auto word) { return word != kUnknown; });
    const bool agreed = std::all_of(list.begin(), list.end(),
                                    [&](auto word) { return word == known || word == kUnknown; });
    choices[key] = agreed ? std::string(known) : fmt::format("{}", fmt::join(list, " "));
  }
  return choices;
}

std::string kernel_choices_of(const std::map<std::string, std::string>& choices, int rank) {
  std::string text;
  for (const auto& [key, value] : choices) {
    if (!key.starts_with(kPrefix)) continue;
    const std::vector<std::string_view> words = split(value, ' ');
    if (words.empty()) continue;
    const auto own = static_cast<size_t>(rank);
    const std::string_view word = own < words.size() ? words[own] : words[0];
    if (word != kUnknown) text += fmt::format("{} {}\n", key.substr(kPrefix.size()), word);
  }
  return text;
}

}  // namespace muster
