// Recorder: the recording process's side of a region: interns names and gives each thread a ring.
// One per process, made by main and passed down; intern and attach are safe from any thread and
// are for set-up, not for hot paths.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "trace/region.h"
#include "trace/ring.h"

namespace muster {

class Recorder {
 public:
  // Marks the region as written by this process. Continues the name table it finds, so a region
  // can be handed from a template process to the worker it becomes.
  explicit Recorder(TraceRegion region);

  // The same text gives the same id. Id 0, counted in the header, when the table is full.
  NameId intern(std::string_view name);

  // A ring for the calling thread, shown as `thread_name` (cut to 64 bytes). A ring given back
  // under the same name is used again, so that short-lived threads of one kind share a track. When
  // all rings are taken the writer records nothing and the header counts the thread.
  TraceWriter attach(std::string_view thread_name);
  // Gives the ring of the calling thread back; its writer must not be used any more.
  void detach();

  TraceRegion& region() { return region_; }
  ProgressPage& progress() { return region_.progress(); }

 private:
  struct Claim {
    uint32_t ring;
    int32_t tid;  // 0: given back
    std::string name;
  };
  TraceWriter take(uint32_t ring, std::string_view thread_name);

  TraceRegion region_;
  std::mutex mutex_;
  std::map<std::string, uint16_t, std::less<>> ids_;
  uint32_t name_bytes_used_ = 0;
  std::vector<Claim> claims_;
};

}  // namespace muster
