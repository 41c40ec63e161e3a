# Flags that every target of this tree shares, and where outputs go: bin/ and lib/tenon/plugins/ of the build
# tree mirror the installed tree, so that `build/bin/tenon` finds its plugins as an installed one does.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # __typeof__, statement attributes
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
# Sanitizers: TNI_ASSERT is on. Their reports need lines and functions; variables would cost a third of the compiling.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(TN_PLUGIN_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/tenon/plugins)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
# The same in the build tree: CMake would pad the other one with an empty entry, which means the working directory.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wvla
                    -Wno-unused-parameter -fno-common -fno-math-errno -ffp-contract=off)
if(TN_WERROR)
  add_compile_options(-Werror)
endif()

# Tables of pointers are most of what the loader has to adjust: packed, each takes a bit instead of 24 bytes (in libtenon
# 4 KB instead of 140). Only where the C library knows the form (glibc 2.36): an older one would refuse the file.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
check_c_source_compiles("#include <features.h>
                         #if !__GLIBC_PREREQ(2, 36)
                         #error
                         #endif
                         int main(void) { return 0; }" TN_PACKED_RELOCATIONS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(TN_PACKED_RELOCATIONS)
  add_link_options(-Wl,-z,pack-relative-relocs)
endif()

if(TN_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(TN_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT TN_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TN_SANITIZE is '${TN_SANITIZE}'; it may be empty, address or thread")
endif()
set(TN_GEN_FUTURE "")
if(TN_ABI_FUTURE)
  add_compile_definitions(TN_ABI_FUTURE=1)
  set(TN_GEN_FUTURE --future)
endif()
if(TN_STRESS)
  add_compile_definitions(TN_STRESS=1)
endif()

set(TN_GEN ${CMAKE_BINARY_DIR}/gen) # generated files: gen/include/tenon/*.h are installed, gen/*.c compiled
