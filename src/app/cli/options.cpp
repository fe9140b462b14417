#include "app/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

namespace muster {

struct Options::Impl {
  CLI::App app;
  std::vector<std::string>* rest = nullptr;
  std::vector<std::string>* remainder = nullptr;
  std::string rest_help;
  explicit Impl(const std::string& verb, const std::string& summary)
      : app(summary, "muster " + verb) {}
};

Options::Options(const std::string& verb, const std::string& summary)
    : impl_(std::make_unique<Impl>(verb, summary)) {
  impl_->app.set_help_flag("-h,--help", "print this text");
}
Options::~Options() = default;

void Options::flag(const std::string& names, bool& target, const std::string& help) {
  impl_->app.add_flag(names, target, help);
}
void Options::value(const std::string& names, std::string& target, const std::string& help) {
  impl_->app.add_option(names, target, help);
}
void Options::value(const std::string& names, std::optional<std::string>& target,
                    const std::string& help) {
  impl_->app.add_option(names, target, help);
}
void Options::value(const std::string& names, int64_t& target, const std::string& help) {
  impl_->app.add_option(names, target, help);
}
void Options::value(const std::string& names, std::optional<int64_t>& target,
                    const std::string& help) {
  impl_->app.add_option(names, target, help);
}
void Options::value(const std::string& names, double& target, const std::string& help) {
  impl_->app.add_option(names, target, help);
}
void Options::values(const std::string& names, std::vector<std::string>& target,
                     const std::string& help) {
  impl_->app.add_option(names, target, help)->allow_extra_args(false)->take_all();
}
void Options::positional(const std::string& name, std::string& target, const std::string& help,
                         bool required) {
  impl_->app.add_option(name, target, help)->required(required);
}
void Options::positionals(const std::string& name, std::vector<std::string>& target,
                          const std::string& help, bool required) {
  impl_->app.add_option(name, target, help)->required(required);
}
void Options::rest(std::vector<std::string>& target, const std::string& name,
                   const std::string& help) {
  impl_->rest = &target;
  impl_->rest_help = "  -- " + name + "  " + help;
  impl_->app.footer(impl_->rest_help);
}
void Options::remainder(std::vector<std::string>& target, const std::string& name,
                        const std::string& help) {
  impl_->remainder = &target;
  impl_->app.prefix_command();
  impl_->rest_help = "  " + name + "  " + help;
  impl_->app.footer(impl_->rest_help);
}
void Options::footer(const std::string& text) {
  impl_->app.footer(impl_->rest_help.empty() ? text : impl_->rest_help + "\n\n" + text);
}

std::optional<int> Options::parse(const std::vector<std::string>& arguments) {
  // CLI11 2.1 loses the words after "--" in some set-ups, so they are cut off before it sees them.
  std::vector<std::string> words = arguments;
  if (impl_->rest != nullptr) {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    if (dashes != words.end()) {
      impl_->rest->assign(dashes + 1, words.end());
      words.erase(dashes, words.end());
    }
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes the words last first
  try {
    impl_->app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::cout << impl_->app.help();
    return kExitOk;
  } catch (const CLI::Error& e) {
    std::cerr << impl_->app.get_name() << ": " << e.what() << "; see " << impl_->app.get_name()
              << " --help\n";
    return kExitUsage;
  }
  if (impl_->remainder != nullptr) *impl_->remainder = impl_->app.remaining();
  return std::nullopt;
}

}  // namespace muster
