// Communicator: the collectives of one group of ranks. Backends: shared memory (shm_group.h; also
// threads-as-ranks and a group of one) and TCP (tcp_group.h); open_group.h chooses.
//
// Order: sums are added in the fixed tree of rank_tree.h, so their bits depend on the leaves alone,
// never on the number of ranks. SUM and MAX only; the caller divides.
//
// Invariants:
//  - every rank starts the same collectives in the same order with the same sizes; a difference is
//    found and fails the group with both sides named (invalid_argument);
//  - after any error the group is broken: that operation and all later ones return the same error,
//    on every rank that can still be told. missing() names the ranks to blame;
//  - steady state allocates nothing.
//
// Waiting: a collective starts with the call and is finished by Work::wait(), which returns timeout
// (missing ranks named) after GroupOptions::timeout, peer_lost when a rank is known to be gone, and
// cancelled after abort(). Buffers belong to the operation until its wait() returns. With
// Progress::thread a thread of the communicator works on it meanwhile; with Progress::caller it is
// done inside wait(). Work not waited for is finished by the wait of a later one.
//
// Threads: one thread at a time starts and waits; abort() may come from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/rank_set.h"
#include "base/result.h"
#include "comm/combine.h"
#include "comm/rank_tree.h"

namespace muster {

enum class Progress : uint8_t { caller, thread };

struct GroupOptions {
  Nanos timeout = std::chrono::minutes{5};  // of one collective, from its start
  Progress progress = Progress::caller;
  // Per rank: what passes through when buffers lie outside shared memory, or over TCP.
  int64_t staging_bytes = int64_t{4} << 20;
  // Per rank: what shared_alloc can give. Address space only until touched.
  int64_t shared_bytes = int64_t{8} << 30;
  // Called with true when a wait finds its collective unfinished, with false when that wait ends;
  // on the waiting thread, which must not use the group meanwhile. May be empty.
  std::function<void(bool)> on_wait;
};

class Communicator;
struct Operation;  // operation.h

// A started collective. A value; valid while its communicator lives. Wait for it once.
class [[nodiscard]] Work {
 public:
  Status wait();

 private:
  friend class Communicator;
  Work(Communicator* group, uint64_t ticket) : group_(group), ticket_(ticket) {}
  Communicator* group_;
  uint64_t ticket_;
};

class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const { return rank_; }
  int world() const { return world_; }
  virtual std::string_view backend() const = 0;  // "shm", "tcp"

  // T is float, double or int64_t. int64 sums wrap.
  //
  // The sum over all `leaves` on every rank. `parts`: the values of subtrees_of(leaves, world,
  // rank), in that order, each of out.size() elements. `out` may be one of the parts.
  template <class T>
  Work all_reduce_tree(std::span<const T* const> parts, int64_t leaves, std::span<T> out);
  // The same sum, of which rank r gets elements [bounds[r], bounds[r + 1]). bounds: [world + 1],
  // rising from 0 to the size of a part; equal on all ranks. `out` may be this slice of a part.
  template <class T>
  Work reduce_scatter_tree(std::span<const T* const> parts, int64_t leaves,
                           std::span<const int64_t> bounds, std::span<T> out);
  // One leaf per rank: SUM in the tree over ranks, or MAX. In place. MAX of floats: the larger;
  // a NaN on any rank gives NaN.
  template <class T>
  Work all_reduce(std::span<T> data, ReduceOp op);

  // Rank r gives elements [bounds[r], bounds[r + 1]) of the result; sizes in bytes. `mine` may be
  // that part of `out` itself.
  Work all_gather(std::span<const std::byte> mine, std::span<const int64_t> bounds,
                  std::span<std::byte> out);
  template <class T>
  Work all_gather(std::span<const T> mine, std::span<const int64_t> bounds, std::span<T> out);
  // The bytes of `root` on every rank.
  Work broadcast(std::span<std::byte> data, Rank root);
  Work barrier();

  // Every rank's message on every rank, in rank order: reports and agreement. Sizes may differ.
  // Blocks; allocates.
  Result<std::vector<std::string>> gather_bytes(std::string_view mine);

  // Memory that peers can read in place: collectives on it need no copies. 4096-aligned, zeroed,
  // faulted in, lives as long as the communicator. Errors: no_space past
  // GroupOptions::shared_bytes.
  virtual Result<std::span<std::byte>> shared_alloc(int64_t bytes) = 0;

  // Ends the group: every waiting and later operation, here and on the peers, returns cancelled
  // with `reason`. Any thread.
  void abort(std::string_view reason);
  // The ranks a broken group blames: late ones after a timeout, dead ones after peer_lost.
  RankSet missing() const;

 protected:
  Communicator(Rank rank, int world, const GroupOptions& options);
  // Runs one collective to its end, on the caller's or the progress thread. Before it returns an
  // error it may blame() ranks.
  virtual Status run(const Operation& operation) = 0;
  // Wakes a run() in progress and tells the peers. Called once, from any thread, not inside run().
  virtual void break_group(const Error& error, const RankSet& missing) = 0;
  // Ends the progress thread; the destructor of every backend starts with it.
  void stop();
  void blame(const RankSet& missing);
  // The merge plan for `leaves`, made once. For run().
  const MergePlan& plan_for(int64_t leaves);

  const GroupOptions& options() const { return options_; }

 private:
  friend class Work;
  struct Queue;

  // The slot of the next operation, with room made if the queue is full. submit() starts it.
  Operation& next_slot();
  Work submit();
  template <class T>
  Work start_reduce(std::span<const T* const> parts, int64_t leaves, int64_t count, ReduceOp op,
                    T* out);
  Status wait(uint64_t ticket);
  void run_next(std::unique_lock<std::mutex>& lock);
  void run_queue();
  void fail(const Error& error, const RankSet& missing);

  Rank rank_;
  int world_;
  GroupOptions options_;
  std::unique_ptr<Queue> queue_;
  std::map<int64_t, std::unique_ptr<MergePlan>> plans_;
};

// Slices of `count` elements, one per rank, cut at multiples of `grain` elements and as equal as
// that allows: [world + 1] bounds.
std::vector<int64_t> even_bounds(int64_t count, int world, int64_t grain);

}  // namespace muster
