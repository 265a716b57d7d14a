# arraybridge::shared, arraybridge::static and arraybridge::arraybridge, which is one of the two:
# BUILD_SHARED_LIBS chooses, and if it is not set the shared one is taken where it is. Given
# arraybridge_include_dir, arraybridge_shared_file and arraybridge_static_file; an empty name: there is none.

# What Rust's standard library needs: rustc --print native-static-libs.
set(arraybridge_static_libs gcc_s util rt pthread m dl c)

foreach(kind shared static)
  if(arraybridge_${kind}_file AND NOT TARGET arraybridge::${kind})
    string(TOUPPER "${kind}" type)
    add_library(arraybridge::${kind} ${type} IMPORTED)
    set_target_properties(arraybridge::${kind} PROPERTIES
      IMPORTED_LOCATION "${arraybridge_${kind}_file}"
      INTERFACE_INCLUDE_DIRECTORIES "${arraybridge_include_dir}")
  endif()
endforeach()
if(TARGET arraybridge::static)
  set_target_properties(arraybridge::static PROPERTIES INTERFACE_LINK_LIBRARIES "${arraybridge_static_libs}")
endif()

if(NOT TARGET arraybridge::arraybridge)
  set(arraybridge_kind shared)
  if(NOT TARGET arraybridge::shared OR (DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS AND TARGET arraybridge::static))
    set(arraybridge_kind static)
  endif()
  add_library(arraybridge::arraybridge INTERFACE IMPORTED)
  set_target_properties(arraybridge::arraybridge PROPERTIES INTERFACE_LINK_LIBRARIES arraybridge::${arraybridge_kind})
  unset(arraybridge_kind)
endif()
