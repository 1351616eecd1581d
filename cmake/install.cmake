# What `cmake --install` gives: headers, library, preload library, command, find_package(farside) and pkg-config.
include(CMakePackageConfigHelpers)

install(
  TARGETS farside
  EXPORT farside-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/farside DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/farside)
install(EXPORT farside-targets NAMESPACE farside:: DESTINATION ${package_directory})
configure_package_config_file(cmake/farside-config.cmake.in ${PROJECT_BINARY_DIR}/farside-config.cmake
                              INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/farside-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/farside-config.cmake ${PROJECT_BINARY_DIR}/farside-config-version.cmake
        DESTINATION ${package_directory})

configure_file(cmake/farside.pc.in ${PROJECT_BINARY_DIR}/farside.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/farside.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
