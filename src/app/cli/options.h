// Options: declares and parses the arguments of one verb (CLI11 behind a small face, so that only
// options.cpp pays for its header). Everything after a bare "--" goes to `rest` untouched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Exit codes shared by all verbs; a verb that has more documents them in its help.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

class Options {
 public:
  // `verb` as typed ("ckpt verify"); `summary` heads the help text.
  Options(const std::string& verb, const std::string& summary);
  ~Options();

  // `names`: "-n,--workers". The targets must outlive parse(); they keep their value when the
  // option is not given.
  void flag(const std::string& names, bool& target, const std::string& help);
  void value(const std::string& names, std::string& target, const std::string& help);
  void value(const std::string& names, std::optional<std::string>& target, const std::string& help);
  void value(const std::string& names, int64_t& target, const std::string& help);
  void value(const std::string& names, std::optional<int64_t>& target, const std::string& help);
  void value(const std::string& names, double& target, const std::string& help);
  void values(const std::string& names, std::vector<std::string>& target,
              const std::string& help);  // repeatable
  void positional(const std::string& name, std::string& target, const std::string& help,
                  bool required = true);
  // Any number of words; options may stand before, between and after them.
  void positionals(const std::string& name, std::vector<std::string>& target,
                   const std::string& help, bool required);
  void rest(std::vector<std::string>& target, const std::string& name, const std::string& help);
  // Stop reading options at the first positional argument (torchrun: SCRIPT ARGS…); the remainder
  // goes to `target`.
  void remainder(std::vector<std::string>& target, const std::string& name,
                 const std::string& help);
  void footer(const std::string& text);

  // Nothing: go on. A code: --help was printed (0) or the words are wrong (2, message on standard
  // error); exit with it.
  std::optional<int> parse(const std::vector<std::string>& arguments);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
