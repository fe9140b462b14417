// TraceWriter: one thread's end of its ring; Span, OpenSpan: time as scope. Header-only, because a
// record must cost a few nanoseconds: no lock, no allocation, no system call.
//
// Protocol: the writer stores the four words of record i with release order and then head = i + 1,
// also release. A reader loads head, copies with acquire loads, loads head again as h, and keeps
// record i only if i + slots > h (trace/reader.h). If it met a word of a newer record, the acquire
// makes the head of that time visible, so the torn record is dropped. Release and acquire are
// plain moves on x86-64.
//
// A TraceWriter is used by one thread at a time. The region must outlive it.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "trace/record.h"
#include "trace/region.h"
#include "trace/ticks.h"

namespace muster {

// Id of an interned name. 0 stands for "the table was full": such records are kept, unnamed.
struct NameId {
  uint16_t value = 0;
  bool operator==(const NameId&) const = default;
};

class TraceWriter {
 public:
  // Records nothing, at the cost of one load and one branch.
  TraceWriter() = default;
  // `ring` must have been claimed for this thread: Recorder::attach.
  TraceWriter(const TraceRegion& region, uint32_t ring)
      : slots_(region.ring_slots(ring)),
        head_(&region.ring(ring).head),
        tiers_(&region.progress().agent.tier_mask),
        next_(head_->load(std::memory_order_relaxed)),
        mask_(region.slots() - 1),
        source_(region.source()) {}

  bool wants(uint8_t tier) const { return tiers_->load(std::memory_order_relaxed) >> tier & 1; }
  uint64_t now() const { return read_ticks(source_); }

  // A span known whole, `from` and `to` in ticks.
  void complete(NameId name, uint64_t from, uint64_t to, uint64_t a = 0, uint64_t b = 0,
                uint8_t flags = 1) {
    if (!wants(flags & kTierMask)) return;
    const uint64_t ticks = to > from ? to - from : 0;
    const uint32_t shift = duration_shift(ticks);
    put(from,
        pack_word(duration_value(ticks, shift), name.value, RecordKind::complete, shift, flags), a,
        b);
  }
  void instant(NameId name, uint64_t a = 0, uint64_t b = 0, uint8_t flags = 1) {
    if (wants(flags & kTierMask))
      put(now(), pack_word(0, name.value, RecordKind::instant, 0, flags), a, b);
  }
  // Returns the serial that end() takes.
  uint32_t begin(NameId name, uint64_t a = 0, uint64_t b = 0, uint8_t flags = 1) {
    const uint32_t serial = ++serial_;
    if (wants(flags & kTierMask))
      put(now(), pack_word(serial, name.value, RecordKind::begin, 0, flags), a, b);
    return serial;
  }
  void end(NameId name, uint32_t serial, uint64_t a = 0, uint64_t b = 0, uint8_t flags = 1) {
    if (wants(flags & kTierMask))
      put(now(), pack_word(serial, name.value, RecordKind::end, 0, flags), a, b);
  }
  void counter(NameId name, int64_t value) {
    if (wants(0))
      put(now(), pack_word(0, name.value, RecordKind::counter, 0, 0), static_cast<uint64_t>(value),
          0);
  }
  void counter(NameId name, double value) {
    if (wants(0))
      put(now(), pack_word(0, name.value, RecordKind::counter, 0, kFlagReal),
          std::bit_cast<uint64_t>(value), 0);
  }
  // The moment at which the computation of `step` (counted from 1) begins.
  void step(NameId name, int64_t step) {
    if (wants(1))
      put(now(), pack_word(0, name.value, RecordKind::step, 0, 1), static_cast<uint64_t>(step), 0);
  }
  // The record as given, for replaying and for tests.
  void raw(const Record& r) {
    if (slots_ != nullptr)
      put(r.t, pack_word(r.v, r.name, r.kind(), r.kind_shift >> 4, r.flags), r.a, r.b);
  }

 private:
  void put(uint64_t t, uint64_t word, uint64_t a, uint64_t b) {
    layout::Slot& slot = slots_[next_ & mask_];
    slot.word[0].store(t, std::memory_order_release);
    slot.word[1].store(word, std::memory_order_release);
    slot.word[2].store(a, std::memory_order_release);
    slot.word[3].store(b, std::memory_order_release);
    head_->store(++next_, std::memory_order_release);
  }

  inline static const std::atomic<uint32_t> kNoTier{0};

  layout::Slot* slots_ = nullptr;
  std::atomic<uint64_t>* head_ = nullptr;
  const std::atomic<uint32_t>* tiers_ = &kNoTier;
  uint64_t next_ = 0, mask_ = 0;
  TickSource source_ = TickSource::vdso;
  uint32_t serial_ = 0;
};

// A leaf span: one complete record when the scope ends. Nothing is recorded of a scope in which the
// process dies; for those use OpenSpan.
class Span {
 public:
  Span(TraceWriter& writer, NameId name, uint64_t a = 0, uint64_t b = 0, uint8_t flags = 1)
      : writer_(writer), a_(a), b_(b), name_(name), flags_(flags), from_(writer.now()) {}
  ~Span() { writer_.complete(name_, from_, writer_.now(), a_, b_, flags_); }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  TraceWriter& writer_;
  uint64_t a_, b_;
  NameId name_;
  uint8_t flags_;
  uint64_t from_;
};

// A span that matters while it is open (phase, collective, checkpoint): two records.
class OpenSpan {
 public:
  OpenSpan(TraceWriter& writer, NameId name, uint64_t a = 0, uint64_t b = 0)
      : writer_(writer), a_(a), b_(b), name_(name), serial_(writer.begin(name, a, b)) {}
  ~OpenSpan() { writer_.end(name_, serial_, a_, b_); }
  OpenSpan(const OpenSpan&) = delete;
  OpenSpan& operator=(const OpenSpan&) = delete;

 private:
  TraceWriter& writer_;
  uint64_t a_, b_;
  NameId name_;
  uint32_t serial_;
};

}  // namespace muster
