# attn_install()
#
# What `cmake --install` lays down: every library of this project as a target of
# one export set, the public headers and definitions (.h, .td) with what
# TableGen makes of them (.inc), the pages, and AttnConfig.cmake, which finds
# MLIR before it reads the targets. Tools install themselves (attn_add_tool).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

function(attn_install)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Attn")
  get_property(libraries GLOBAL PROPERTY ATTN_LIBRARIES)
  install(TARGETS ${libraries} EXPORT AttnTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT AttnTargets DESTINATION ${package_dir})

  foreach(root "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
    install(DIRECTORY "${root}/include/attn"
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
      FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc"
      PATTERN "CMakeFiles" EXCLUDE)
  endforeach()
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/"
    DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
  install(FILES "${PROJECT_SOURCE_DIR}/README.md"
    DESTINATION ${CMAKE_INSTALL_DOCDIR})

  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/AttnConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/AttnConfig.cmake"
    INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/AttnConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/AttnConfig.cmake"
    "${PROJECT_BINARY_DIR}/AttnConfigVersion.cmake"
    DESTINATION ${package_dir})
endfunction()
