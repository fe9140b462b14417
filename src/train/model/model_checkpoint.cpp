#include "train/model/model_checkpoint.h"

#include "train/spec/checkpoint_model.h"

namespace muster {

template <class T>
Result<std::unique_ptr<Model<T>>> load_model(CheckpointReader& reader) {
  MUSTER_TRY(const ModelConfig config, read_checkpoint_config(reader));
  MUSTER_TRY(std::unique_ptr<Model<T>> model, Model<T>::make(config));
  for (const Param& param : model->spec().params) {
    MUSTER_TRY(load_parameter(reader, param, model->view(param)));
  }
  return model;
}

template <class T>
std::vector<StateTensor> parameter_tensors(Model<T>& model) {
  std::vector<StateTensor> tensors;
  for (const Param& param : model.spec().params) {
    StateTensor tensor;
    tensor.info = parameter_info(param, real_of<T>());
    tensor.held = whole_box(param.shape);
    tensor.data = reinterpret_cast<std::byte*>(model.view(param).data());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

template Result<std::unique_ptr<Model<float>>> load_model(CheckpointReader&);
template Result<std::unique_ptr<Model<double>>> load_model(CheckpointReader&);
template std::vector<StateTensor> parameter_tensors(Model<float>&);
template std::vector<StateTensor> parameter_tensors(Model<double>&);

}  // namespace muster
