// What a Tokenizer shares among its copies and encoders. Internal to the room.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "text/bpe_model.h"
#include "text/tokenizer.h"

namespace muster {

struct Tokenizer::Tables {
  TokenizerParts parts;
  BpeModel model;
  AddedTokens added;
  std::vector<std::optional<std::string>> bytes;  // id -> what it decodes to
  std::vector<bool> special;                      // by id
  std::unordered_map<std::string, uint32_t> added_ids;
  Hash128 fingerprint;
};

}  // namespace muster
