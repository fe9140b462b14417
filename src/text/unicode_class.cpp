#include "text/unicode_class.h"

namespace muster::detail {

namespace {
#include "text/unicode_table.inc"
static_assert(kBlockBits == 7 && sizeof(kBlocks[0]) == 32);
}  // namespace

const unsigned char* const kUnicodeBlockOf = kBlockOf;
const unsigned char (*const kUnicodeBlocks)[32] = kBlocks;

}  // namespace muster::detail
