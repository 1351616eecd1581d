# The graph of modules: what a module may include is what its compiler finds.

# TARGET finds the headers of these modules, folders of src, and the public ones of theirs. It finds no others. What links
# a static library finds the same.
function(farside_let_see target)
  set(view ${PROJECT_BINARY_DIR}/modules/${target})
  file(REMOVE_RECURSE ${view})
  foreach(module IN LISTS ARGN)
    string(REGEX REPLACE "/.*" "" whole ${module})
    farside_link(src/${module} ${view}/${module})
    farside_link(include/farside/${whole} ${view}/farside/${whole})
  endforeach()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    target_include_directories(${target} PUBLIC ${view})
  else()
    target_include_directories(${target} PRIVATE ${view})
  endif()
endfunction()

function(farside_link folder link)
  cmake_path(GET link PARENT_PATH parent)
  file(MAKE_DIRECTORY ${parent})
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder} AND NOT EXISTS ${link})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${link} SYMBOLIC)
  endif()
endfunction()

# Declares a module of the library, farside_NAME, which may include itself and the modules that stand BELOW it. It links
# the libraries that it USES.
function(farside_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "BELOW;USES;SOURCES")
  string(REPLACE / _ target farside_${name})
  add_library(${target} OBJECT ${module_SOURCES})
  farside_let_see(${target} ${name} ${module_BELOW})
  target_compile_definitions(${target} PRIVATE FARSIDE_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PRIVATE Threads::Threads spdlog::spdlog ${module_USES})
  target_sources(farside PRIVATE $<TARGET_OBJECTS:${target}>)
  target_link_libraries(farside PRIVATE ${module_USES})
  if(FARSIDE_UNITY)
    farside_compile_together(${target})
  endif()
endfunction()

# Compiles a folder at a time, since most of the work is to read headers.
function(farside_compile_together target)
  set(alone # these have a name that another file of their folder has as well
      comm/broadcast.cc
      kv/server/heap.cc
      kv/client/homes.cc
      kv/resp/[a-z]+_commands.cc
      kv/service/service_client.cc)
  list(JOIN alone "|" alone)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE file)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src)
    if(NOT file MATCHES "^(${alone})$")
      cmake_path(GET file PARENT_PATH folder)
      string(REPLACE / _ group ${folder})
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
