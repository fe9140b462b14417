// An allocator for tables read at random: large ones are aligned for huge pages and ask for them,
// since otherwise most reads also miss the address translation cache. Where the system grants none,
// nothing else changes. Stateless; any thread.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace muster {

template <class T>
struct HugeAllocator {
  using value_type = T;

  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(size_t count) {
    size_t bytes = count * sizeof(T);
    const bool huge = bytes >= kLeast;
    const size_t alignment = huge ? kPage : 64;
    bytes = (bytes + alignment - 1) & ~(alignment - 1);
    void* memory = std::aligned_alloc(alignment, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    // A refusal costs speed alone.
    if (huge) madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }

  bool operator==(const HugeAllocator&) const { return true; }

 private:
  static constexpr size_t kPage = size_t{2} << 20;
  static constexpr size_t kLeast = size_t{256} << 10;
};

template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

}  // namespace muster
