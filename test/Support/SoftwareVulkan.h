//===- SoftwareVulkan.h - Mesa's Vulkan without a GPU -----------*- C++ -*-===//

#ifndef ATTN_TEST_SUPPORT_SOFTWAREVULKAN_H
#define ATTN_TEST_SUPPORT_SOFTWAREVULKAN_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cstdlib>
#include <string>

/// The description of Mesa's software driver, or "" where it is not installed.
inline std::string softwareVulkanDriver() {
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it("/usr/share/vulkan/icd.d", error),
       end;
       !error && it != end; it.increment(error))
    if (llvm::sys::path::filename(it->path()).starts_with("lvp_icd"))
      return it->path();
  return "";
}

/// Makes it the only driver of this process, behind the validation layers,
/// unless the environment names drivers already. False where there is none.
inline bool useSoftwareVulkan() {
  std::string driver = softwareVulkanDriver();
  if (!std::getenv("VK_DRIVER_FILES") && !std::getenv("VK_ICD_FILENAMES")) {
    if (driver.empty())
      return false;
    // The second name is that of older loaders.
    setenv("VK_DRIVER_FILES", driver.c_str(), /*overwrite=*/1);
    setenv("VK_ICD_FILENAMES", driver.c_str(), /*overwrite=*/1);
  }
  setenv("ATTN_VULKAN_VALIDATION", "1", /*overwrite=*/0);
  return true;
}

#endif // ATTN_TEST_SUPPORT_SOFTWAREVULKAN_H
