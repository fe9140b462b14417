#include "trace/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace muster {

Recorder::Recorder(TraceRegion region) : region_(std::move(region)) {
  layout::Header& h = region_.header();
  h.pid.store(getpid(), std::memory_order_release);
  const uint32_t used = std::min(h.names_used.load(std::memory_order_acquire), region_.names() - 1);
  for (uint32_t id = 1; id <= used; ++id) {
    const layout::NameEntry e = region_.name_entries()[id];
    if (uint64_t{e.offset} + e.length > region_.name_bytes()) break;
    ids_.emplace(std::string(region_.name_text() + e.offset, e.length), static_cast<uint16_t>(id));
    name_bytes_used_ = std::max(name_bytes_used_, e.offset + e.length);
  }
}

NameId Recorder::intern(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = ids_.find(name); known != ids_.end()) return {known->second};
  layout::Header& h = region_.header();
  const uint32_t id = h.names_used.load(std::memory_order_relaxed) + 1;
  if (id >= region_.names() || name.size() > region_.name_bytes() - name_bytes_used_) {
    h.names_refused.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  std::memcpy(region_.name_text() + name_bytes_used_, name.data(), name.size());
  region_.name_entries()[id] = {name_bytes_used_, static_cast<uint32_t>(name.size())};
  name_bytes_used_ += static_cast<uint32_t>(name.size());
  h.names_used.store(id, std::memory_order_release);
  ids_.emplace(std::string(name), static_cast<uint16_t>(id));
  return {static_cast<uint16_t>(id)};
}

TraceWriter Recorder::take(uint32_t ring, std::string_view thread_name) {
  layout::RingHeader& h = region_.ring(ring);
  h.tid.store(gettid(), std::memory_order_relaxed);
  if (h.thread_name_length.load(std::memory_order_relaxed) == 0) {
    std::memcpy(h.thread_name, thread_name.data(), thread_name.size());
    h.thread_name_length.store(static_cast<uint32_t>(thread_name.size()),
                               std::memory_order_release);
  }
  return TraceWriter(region_, ring);
}

TraceWriter Recorder::attach(std::string_view thread_name) {
  const std::scoped_lock lock(mutex_);
  thread_name = thread_name.substr(0, kThreadNameBytes);
  for (Claim& claim : claims_) {
    if (claim.tid != 0 || claim.name != thread_name) continue;
    claim.tid = gettid();
    return take(claim.ring, thread_name);
  }
  layout::Header& h = region_.header();
  const uint32_t ring = h.rings_claimed.load(std::memory_order_relaxed);
  if (ring >= region_.rings()) {
    h.threads_refused.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  claims_.push_back({ring, gettid(), std::string(thread_name)});
  TraceWriter writer = take(ring, thread_name);
  h.rings_claimed.store(ring + 1, std::memory_order_release);
  return writer;
}

void Recorder::detach() {
  const std::scoped_lock lock(mutex_);
  for (Claim& claim : claims_)
    if (claim.tid == gettid()) claim.tid = 0;
}

}  // namespace muster
