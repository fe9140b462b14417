# Finds libtorch inside the installed torch wheel without running torch's own CMake package, whose CUDA detection
# needs a CUDA toolkit. Input: LIBTORCH_ROOT, or the Python of .venv, or python3 on PATH. Output: LibTorch::LibTorch
# (torch_cpu and c10 only; -DMUSTER_CUDA=ON adds torch_cuda and c10_cuda when the wheel has them) and LibTorch_VERSION.
option(MUSTER_CUDA "Link the CUDA libraries of the torch wheel" OFF)

if(NOT LIBTORCH_ROOT)
  set(python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  if(NOT EXISTS ${python})
    find_program(python_on_path python3 REQUIRED)
    set(python ${python_on_path})
  endif()
  execute_process(
    COMMAND ${python} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
    OUTPUT_VARIABLE LIBTORCH_ROOT ERROR_QUIET)
endif()
if(NOT LIBTORCH_ROOT OR NOT EXISTS ${LIBTORCH_ROOT}/include/ATen/ATen.h)
  message(FATAL_ERROR "torch was not found: run ./dev deps, or pass -DLIBTORCH_ROOT=<folder of the torch package>, or -DMUSTER_TRAIN=OFF")
endif()

file(STRINGS ${LIBTORCH_ROOT}/version.py version_line REGEX "__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LibTorch_VERSION "${version_line}")
find_library(LIBTORCH_CPU torch_cpu PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
find_library(LIBTORCH_C10 c10 PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH REQUIRED)

add_library(LibTorch::LibTorch INTERFACE IMPORTED)
target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${LIBTORCH_ROOT}/include ${LIBTORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(LibTorch::LibTorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1 AT_PER_OPERATOR_HEADERS MUSTER_HAVE_LIBTORCH=1)
set(libraries ${LIBTORCH_CPU} ${LIBTORCH_C10})
if(MUSTER_CUDA)
  find_library(LIBTORCH_CUDA torch_cuda PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
  find_library(LIBTORCH_C10_CUDA c10_cuda PATHS ${LIBTORCH_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
  list(APPEND libraries ${LIBTORCH_CUDA} ${LIBTORCH_C10_CUDA})
endif()
# --no-as-needed keeps the libraries' static operator registrations.
target_link_libraries(LibTorch::LibTorch INTERFACE -Wl,--push-state,--no-as-needed ${libraries} -Wl,--pop-state)
target_link_options(LibTorch::LibTorch INTERFACE -Wl,-rpath,${LIBTORCH_ROOT}/lib)
message(STATUS "libtorch ${LibTorch_VERSION} in ${LIBTORCH_ROOT}")
set(LibTorch_FOUND TRUE)
