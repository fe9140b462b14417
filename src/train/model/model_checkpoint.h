// A Model's parameters from a checkpoint folder (train/spec/checkpoint_model.h) and as tensors to
// be saved.
#pragma once

#include <memory>
#include <vector>

#include "ckpt/reader.h"
#include "ckpt/state.h"
#include "train/model/model.h"

namespace muster {

// Model of the checkpoint's config.json with its parameters; stored float32 widens for
// Model<double>. Errors: those of read_checkpoint_config and load_parameter, no_space.
template <class T>
Result<std::unique_ptr<Model<T>>> load_model(CheckpointReader& reader);

// Views of all parameters, for a State. `model` must outlive them.
template <class T>
std::vector<StateTensor> parameter_tensors(Model<T>& model);

}  // namespace muster
