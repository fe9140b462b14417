# A room is one folder of src/ and one target. Rules (see docs/ARCHITECTURE.md):
#   x.cpp                compiled into the room's static library muster_<room>
#   x_avx2.cpp, x_avx512.cpp   the same, with that instruction set enabled for that file alone
#   x_test.cpp           into muster_test_<room>, which links only the room, its declared rooms and GoogleTest
#   x_oracle_test.cpp    into muster_oracle_test_<room>, which also links libtorch; only with MUSTER_TRAIN
#   x_rig.cpp            into muster_<room>_rig, what tests and benchmarks share (with x_rig.h); no program links it
#   x_fuzz.cpp           not compiled by default
# DEPS are rooms listed earlier; LIBS are outside libraries. src/CMakeLists.txt lists every room from the
# ground up, so a dependency that points up fails at configure time.

add_library(muster_flags INTERFACE)
target_compile_options(muster_flags INTERFACE
  -Wall -Wextra -Wshadow -Wno-missing-field-initializers -fno-omit-frame-pointer
  # False alarms of g++ 12 on std::string concatenation (GCC bug 105651).
  -Wno-restrict
  # One order, whatever the machine: a compiler may not fuse a*b+c on its own.
  -ffp-contract=off)
if(MUSTER_WERROR)
  target_compile_options(muster_flags INTERFACE -Werror)
endif()
target_include_directories(muster_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(muster_flags INTERFACE MUSTER_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_link_libraries(muster_flags INTERFACE Threads::Threads)
if(MUSTER_SANITIZE)
  target_compile_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE})
endif()

set(MUSTER_AVX2_FLAGS -mavx2 -mfma -mbmi -mbmi2 -mf16c -mlzcnt -mpopcnt)
set(MUSTER_AVX512_FLAGS ${MUSTER_AVX2_FLAGS} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd)

function(muster_room ROOM)
  cmake_parse_arguments(R "" "" "DEPS;LIBS;TEST_DEPS;TEST_LIBS" ${ARGN})
  string(REPLACE "/" "_" NAME ${ROOM})
  set(DIR ${CMAKE_SOURCE_DIR}/src/${ROOM})
  file(GLOB ALL CONFIGURE_DEPENDS ${DIR}/*.cpp)
  if(NOT ALL)
    # A room of headers alone, or one that is not there yet.
    add_library(muster_${NAME} INTERFACE)
    target_link_libraries(muster_${NAME} INTERFACE muster_flags ${R_LIBS})
    foreach(D ${R_DEPS})
      string(REPLACE "/" "_" DN ${D})
      target_link_libraries(muster_${NAME} INTERFACE muster_${DN})
    endforeach()
    return()
  endif()
  set(SOURCES) 
  set(TESTS)
  set(ORACLES)
  set(RIGS)
  foreach(F ${ALL})
    if(F MATCHES "_oracle_test\\.cpp$")
      list(APPEND ORACLES ${F})
    elseif(F MATCHES "_test\\.cpp$")
      list(APPEND TESTS ${F})
    elseif(F MATCHES "_rig\\.cpp$")
      list(APPEND RIGS ${F})
    elseif(F MATCHES "_(main|fuzz)\\.cpp$" OR F MATCHES "/main\\.cpp$")
      # programs are declared by hand
    else()
      list(APPEND SOURCES ${F})
      if(F MATCHES "_avx2\\.cpp$")
        set_source_files_properties(${F} PROPERTIES COMPILE_OPTIONS "${MUSTER_AVX2_FLAGS}")
      elseif(F MATCHES "_avx512\\.cpp$")
        set_source_files_properties(${F} PROPERTIES COMPILE_OPTIONS "${MUSTER_AVX512_FLAGS}")
      endif()
    endif()
  endforeach()

  set(DEP_TARGETS)
  foreach(D ${R_DEPS})
    string(REPLACE "/" "_" DN ${D})
    if(NOT TARGET muster_${DN})
      message(FATAL_ERROR "room ${ROOM} uses ${D}, which is not listed before it in src/CMakeLists.txt")
    endif()
    list(APPEND DEP_TARGETS muster_${DN})
  endforeach()

  if(SOURCES)
    add_library(muster_${NAME} STATIC ${SOURCES})
    target_link_libraries(muster_${NAME} PUBLIC muster_flags ${DEP_TARGETS} ${R_LIBS})
  else()
    add_library(muster_${NAME} INTERFACE)
    target_link_libraries(muster_${NAME} INTERFACE muster_flags ${DEP_TARGETS} ${R_LIBS})
  endif()

  set(TESTED muster_${NAME})
  if(RIGS)
    add_library(muster_${NAME}_rig STATIC ${RIGS})
    target_link_libraries(muster_${NAME}_rig PUBLIC muster_${NAME})
    set(TESTED muster_${NAME}_rig)
  endif()
  add_custom_target(muster_tests_${NAME})
  set(TEST_DEP_TARGETS)
  foreach(D ${R_TEST_DEPS})
    string(REPLACE "/" "_" DN ${D})
    list(APPEND TEST_DEP_TARGETS muster_${DN})
  endforeach()
  if(TESTS)
    add_executable(muster_test_${NAME} ${TESTS})
    target_link_libraries(muster_test_${NAME} PRIVATE ${TESTED} ${TEST_DEP_TARGETS} ${R_TEST_LIBS} GTest::gtest GTest::gtest_main)
    add_test(NAME ${ROOM} COMMAND muster_test_${NAME})
    set_tests_properties(${ROOM} PROPERTIES LABELS ${NAME} TIMEOUT 300)
    add_dependencies(muster_tests_${NAME} muster_test_${NAME})
  endif()
  if(ORACLES AND MUSTER_TRAIN)
    add_executable(muster_oracle_test_${NAME} ${ORACLES})
    target_link_libraries(muster_oracle_test_${NAME} PRIVATE ${TESTED} ${TEST_DEP_TARGETS} ${R_TEST_LIBS} LibTorch::LibTorch GTest::gtest GTest::gtest_main)
    add_test(NAME ${ROOM}/oracle COMMAND muster_oracle_test_${NAME})
    set_tests_properties(${ROOM}/oracle PROPERTIES LABELS ${NAME} TIMEOUT 300)
    add_dependencies(muster_tests_${NAME} muster_oracle_test_${NAME})
  endif()
endfunction()
