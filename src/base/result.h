// Result<T>: a value or an Error. Errors carry a code (for callers that act differently), a message
// (the thing, the value seen, the remedy) and the chain of what was being done, innermost first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"

namespace muster {

// Add a code only if a caller would act differently on it.
enum class Code {
  invalid_argument,  // the request itself is wrong
  not_found,
  already_exists,
  permission,
  unsupported,  // this machine or build cannot do it; a fallback may exist
  corrupt,      // data fails its own checks
  no_space,
  busy,  // held by somebody else; trying later may help
  timeout,
  cancelled,
  peer_lost,  // another rank or process is gone
  io,
  internal,
};

std::string_view code_name(Code code);

class Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Adds what was being done when the error surfaced.
  Error context(std::string doing) && {
    contexts_.push_back(std::move(doing));
    return std::move(*this);
  }

  // "outermost: …: innermost: message"
  std::string to_string() const;

 private:
  Code code_;
  std::string message_;
  std::vector<std::string> contexts_;
};

// "open /x: No such file or directory", with a code chosen from `errno_value`.
Error errno_error(int errno_value, std::string_view doing);

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    MUSTER_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    MUSTER_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    MUSTER_CHECK(ok(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    MUSTER_CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    MUSTER_CHECK(!ok());
    return std::get<1>(std::move(state_));
  }

  Result context(std::string doing) && {
    if (ok()) return std::move(*this);
    return std::move(std::get<1>(state_)).context(std::move(doing));
  }

 private:
  std::string error_text() const { return ok() ? std::string() : std::get<1>(state_).to_string(); }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const { MUSTER_CHECK(ok(), error_->to_string()); }

  const Error& error() const& {
    MUSTER_CHECK(!ok());
    return *error_;
  }
  Error&& error() && {
    MUSTER_CHECK(!ok());
    return *std::move(error_);
  }

  Result context(std::string doing) && {
    if (ok()) return {};
    return std::move(*error_).context(std::move(doing));
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace muster

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)

// MUSTER_TRY(expression) or MUSTER_TRY(declaration, expression): returns the error, or goes on with
// the value.
#define MUSTER_TRY_1(expression)                                              \
  do {                                                                        \
    auto muster_try_status = (expression);                                    \
    if (!muster_try_status.ok()) return std::move(muster_try_status).error(); \
  } while (false)
#define MUSTER_TRY_2(declaration, expression) \
  MUSTER_TRY_IMPL(MUSTER_CONCAT(muster_try_, __LINE__), declaration, expression)
#define MUSTER_TRY_IMPL(name, declaration, expression) \
  auto name = (expression);                            \
  if (!name.ok()) return std::move(name).error();      \
  declaration = std::move(name).value()
#define MUSTER_TRY_PICK(_1, _2, macro, ...) macro
#define MUSTER_TRY(...) MUSTER_TRY_PICK(__VA_ARGS__, MUSTER_TRY_2, MUSTER_TRY_1)(__VA_ARGS__)
