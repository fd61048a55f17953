# To be filled in at a release: OWNER, here and in vcpkg.json, and the checksum, of which the zero is no
# more than a place (vcpkg prints the right one).
vcpkg_from_github(
    OUT_SOURCE_PATH SOURCE_PATH
    REPO OWNER/rowgrad
    REF "v${VERSION}"
    SHA512 0
    HEAD_REF main
)

# (openblas is asked for with threads, as one without them computes one product at a time.)
vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        mpi     VCPKG_LOCK_FIND_PACKAGE_MPI
        report  VCPKG_LOCK_FIND_PACKAGE_ZLIB
        tools   ROWGRAD_EXAMPLES
)

# What is built here may run elsewhere, so never for the processor of this machine. Shared libraries
# are made for several levels, of which the loader takes one. Static ones are of a single level, which
# programs that link them get, too.
if(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
    set(LEVELS armv8-a)
elseif(VCPKG_LIBRARY_LINKAGE STREQUAL "dynamic")
    set(LEVELS x86-64 x86-64-v3 x86-64-v4)
elseif("avx2" IN_LIST FEATURES)
    set(LEVELS x86-64-v3)
else()
    set(LEVELS x86-64)
endif()
list(JOIN LEVELS "\\;" LEVELS)

# The charts of reports, with their license.
set(CHARTS "${CURRENT_BUILDTREES_DIR}/charts")
set(COPYRIGHT "${SOURCE_PATH}/LICENSE")
if("report" IN_LIST FEATURES)
    vcpkg_download_distfile(DYGRAPHS_ARCHIVE
        URLS https://registry.npmjs.org/dygraphs/-/dygraphs-2.2.1.tgz
        FILENAME dygraphs-2.2.1.tgz
        SHA512 c67bafb2f8761ff14abc98d34a55e0269c023a12ce8b7bb4b07c3582c260fc199fdbdcba6e73b5e0f6d3cfc3301ce6b71886caaaa80a5413123a2f99d602361a
    )
    vcpkg_extract_source_archive(DYGRAPHS_PATH ARCHIVE "${DYGRAPHS_ARCHIVE}" SOURCE_BASE dygraphs)
    file(INSTALL "${DYGRAPHS_PATH}/dist/dygraph.min.js" "${DYGRAPHS_PATH}/dist/dygraph.min.css"
                 "${DYGRAPHS_PATH}/LICENSE.txt" DESTINATION "${CHARTS}")
    list(APPEND COPYRIGHT "${DYGRAPHS_PATH}/LICENSE.txt")
endif()

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${FEATURE_OPTIONS}
        "-DROWGRAD_LEVELS=${LEVELS}"
        -DROWGRAD_TESTS=OFF
        -DROWGRAD_REFERENCE=OFF
        "-DDYGRAPHS_FOLDER=${CHARTS}"
        "-DOPENBLAS_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include/openblas"
    OPTIONS_DEBUG
        -DROWGRAD_EXAMPLES=OFF
    MAYBE_UNUSED_VARIABLES
        DYGRAPHS_FOLDER  # without reports
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/rowgrad)
vcpkg_fixup_pkgconfig()

if("tools" IN_LIST FEATURES)
    vcpkg_copy_tools(
        TOOL_NAMES exact_rows inspect_rows ngram_table tokenize train_gpt train_verdict
        AUTO_CLEAN
    )
endif()

file(REMOVE_RECURSE
    "${CURRENT_PACKAGES_DIR}/debug/include"
    "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/bash-completion"
    "${CURRENT_PACKAGES_DIR}/share/doc"
    "${CURRENT_PACKAGES_DIR}/share/man"
)

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST ${COPYRIGHT})
