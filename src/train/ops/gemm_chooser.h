// GemmChooser: which matrix product, the vendor's or our own, each shape uses in fast mode. A shape
// met for the first time is measured (both are run on its real operands a few times, alternating)
// and the winner is kept. The choices are text, recorded with the run: a run that starts from them
// measures nothing and repeats the bits of the run that recorded them.
//
// One per worker; not thread-safe. Time comes from the Clock given, so that tests decide who wins.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "base/clock.h"
#include "base/result.h"
#include "train/ops/exec.h"

namespace muster::ops {

struct GemmShape {
  bool ta = false, tb = false, accumulate = false;
  int64_t M = 0, N = 0, K = 0;
  auto operator<=>(const GemmShape&) const = default;
};

enum class GemmChoice : uint8_t { own, vendor };

class GemmChooser {
 public:
  // `clock` must outlive the chooser.
  explicit GemmChooser(const Clock& clock) : clock_(clock) {}

  // The choice, or null when the shape has not been seen.
  const GemmChoice* find(const GemmShape& shape) const;
  void set(const GemmShape& shape, GemmChoice choice) { choices_[shape] = choice; }
  size_t size() const { return choices_.size(); }

  // Runs own and vendor, alternating, each kRounds times after one untimed call, keeps the one
  // whose best time is smaller (own on a tie) and returns it. `own` and `vendor` must be
  // repeatable.
  template <class Own, class Vendor>
  GemmChoice measure(const GemmShape& shape, const Own& own, const Vendor& vendor) {
    Nanos times[2][kRounds];
    own();
    vendor();
    for (int i = 0; i < kRounds; ++i) {
      times[0][i] = time(own);
      times[1][i] = time(vendor);
    }
    const GemmChoice choice = faster(times[0], times[1]);
    set(shape, choice);
    return choice;
  }

  // One line per shape, sorted: "NT M N K beta own|vendor". restore() takes these choices over its
  // own; other shapes keep theirs.
  std::string to_text() const;
  // Errors: invalid_argument naming the line.
  Status restore(std::string_view text);

 private:
  static constexpr int kRounds = 3;
  static GemmChoice faster(Nanos (&own)[kRounds], Nanos (&vendor)[kRounds]);
  template <class Body>
  Nanos time(const Body& body) {
    const Nanos start = clock_.now();
    body();
    return clock_.now() - start;
  }

  const Clock& clock_;
  std::map<GemmShape, GemmChoice> choices_;
};

}  // namespace muster::ops
