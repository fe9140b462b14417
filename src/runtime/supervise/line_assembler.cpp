#include "runtime/supervise/line_assembler.h"

#include <algorithm>

namespace muster {

void LineAssembler::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const size_t end = newline == std::string_view::npos ? bytes.size() : newline + 1;
    const size_t room = kLongestLine - pending_.size();
    if (newline == std::string_view::npos && end < room) {
      pending_.append(bytes);
      return;
    }
    out.append(label_);
    out.append(pending_);
    pending_.clear();
    const size_t taken = std::min(end, room);
    out.append(bytes.substr(0, taken));
    if (out.back() != '\n') out.push_back('\n');
    bytes.remove_prefix(taken);
  }
}

void LineAssembler::flush(std::string& out) {
  if (pending_.empty()) return;
  out.append(label_).append(pending_).push_back('\n');
  pending_.clear();
}

std::vector<std::string> last_lines_of(std::string_view text, size_t count) {
  std::vector<std::string> lines;
  if (text.ends_with('\n')) text.remove_suffix(1);
  while (!text.empty() && lines.size() < count) {
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos) {
      lines.emplace_back(text);
      break;
    }
    lines.emplace_back(text.substr(newline + 1));
    text = text.substr(0, newline);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

static void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

std::string expand_label(std::string_view pattern, int32_t rank, int32_t local_rank,
                         std::string_view role) {
  std::string label(pattern);
  replace_all(label, "${rank}", std::to_string(rank));
  replace_all(label, "${local_rank}", std::to_string(local_rank));
  replace_all(label, "${role_name}", role);
  return label;
}

}  // namespace muster
