// FrameCursor: walks one part of a frame in the order BlockSpec::saved() declares it. Where the
// caller gave no frame (a forward pass without a backward pass) the part comes from the arena for
// the length of the call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sys/arena.h"
#include "train/spec/block_spec.h"

namespace muster {

class FrameCursor {
 public:
  explicit FrameCursor(std::byte* base) : base_(base) {}

  template <class T>
  T* take(int64_t count) {
    T* at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    used_ += (bytes + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
    return at;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

// `Frame` has a static make(costly cursor, cheap cursor, spec, tokens). Given parts are used;
// missing ones are taken from `arena` (the caller holds an Arena::Scope).
template <class Frame>
Frame open_frame(const BlockSpec& spec, int64_t tokens, std::byte* costly, std::byte* cheap,
                 Arena& arena) {
  if (costly == nullptr || cheap == nullptr) {
    FrameCursor costly_size(nullptr), cheap_size(nullptr);
    Frame::make(costly_size, cheap_size, spec, tokens);
    if (costly == nullptr)
      costly = static_cast<std::byte*>(arena.take(static_cast<size_t>(costly_size.used())));
    if (cheap == nullptr)
      cheap = static_cast<std::byte*>(arena.take(static_cast<size_t>(cheap_size.used())));
  }
  FrameCursor costly_cursor(costly), cheap_cursor(cheap);
  return Frame::make(costly_cursor, cheap_cursor, spec, tokens);
}

}  // namespace muster
