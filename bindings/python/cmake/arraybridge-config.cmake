# arraybridge::arraybridge, as it lies in an installed Python package: find it with
#   cmake -Darraybridge_DIR=$(python -c "import arraybridge; print(arraybridge.get_cmake_dir())")
get_filename_component(_arraybridge_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET arraybridge::arraybridge)
  add_library(arraybridge::arraybridge SHARED IMPORTED)
  set_target_properties(arraybridge::arraybridge PROPERTIES
    IMPORTED_LOCATION "${_arraybridge_root}/lib/${CMAKE_SHARED_LIBRARY_PREFIX}arraybridge${CMAKE_SHARED_LIBRARY_SUFFIX}"
    IMPORTED_NO_SONAME FALSE
    INTERFACE_INCLUDE_DIRECTORIES "${_arraybridge_root}/include")
endif()

unset(_arraybridge_root)
