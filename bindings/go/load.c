//go:build !arraybridge_link

/* The functions of the C ABI, each of which calls that of the library that ab_go_open has found. The
 * compiler compares every one with the header. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "bridge.h"

#define FUNCTIONS(FORWARD, FORWARD_VOID)                                                                             \
  FORWARD(uint32_t, ab_abi_version, (void), ())                                                                      \
  FORWARD(const char *, ab_version, (void), ())                                                                      \
  FORWARD(const char *, ab_status_name, (ab_status status), (status))                                                \
  FORWARD(ab_status, ab_list_backends,                                                                               \
          (ab_context * context, ab_backend_info * out, size_t capacity, size_t *count, ab_error *error),            \
          (context, out, capacity, count, error))                                                                    \
  FORWARD(ab_status, ab_list_devices,                                                                                \
          (ab_context * context, ab_device_info * out, size_t capacity, size_t *count, ab_error *error),             \
          (context, out, capacity, count, error))                                                                    \
  FORWARD(ab_status, ab_detect, (const DLTensor *tensor, uint64_t dl_flags, ab_tensor_info *out, ab_error *error),   \
          (tensor, dl_flags, out, error))                                                                            \
  FORWARD(ab_status, ab_convert,                                                                                     \
          (ab_context * context, ab_managed * source, const ab_convert_options *options, ab_managed **out,           \
           ab_report *report, ab_error *error),                                                                      \
          (context, source, options, out, report, error))                                                            \
  FORWARD(ab_status, ab_copy,                                                                                        \
          (ab_context * context, const DLTensor *source, uint64_t dl_flags, const ab_convert_options *options,       \
           ab_managed **out, ab_report *report, ab_error *error),                                                    \
          (context, source, dl_flags, options, out, report, error))                                                  \
  FORWARD(ab_status, ab_copy_into,                                                                                   \
          (ab_context * context, const DLTensor *source, uint64_t source_flags, const DLTensor *destination,         \
           uint64_t destination_flags, const ab_convert_options *options, ab_report *report, ab_error *error),       \
          (context, source, source_flags, destination, destination_flags, options, report, error))                   \
  FORWARD(ab_status, ab_plan,                                                                                        \
          (ab_context * context, const DLTensor *source, uint64_t dl_flags, const ab_convert_options *options,       \
           ab_report *report, ab_error *error),                                                                      \
          (context, source, dl_flags, options, report, error))                                                       \
  FORWARD(size_t, ab_report_describe, (const ab_report *report, char *buffer, size_t capacity),                      \
          (report, buffer, capacity))                                                                                \
  FORWARD(ab_status, ab_wrap,                                                                                        \
          (const DLTensor *view, uint64_t dl_flags, void *owner, void (*release)(void *owner), ab_managed **out,     \
           ab_error *error),                                                                                         \
          (view, dl_flags, owner, release, out, error))                                                              \
  FORWARD(ab_status, ab_dtype_parse, (const char *text, DLDataType *out, ab_error *error), (text, out, error))       \
  FORWARD(size_t, ab_dtype_format, (const DLDataType *dtype, char *buffer, size_t capacity),                         \
          (dtype, buffer, capacity))                                                                                 \
  FORWARD_VOID(ab_release, (ab_managed * tensor), (tensor))

#define POINTER(returns, name, parameters, arguments) __typeof__(&name) name;
#define POINTER_VOID(name, parameters, arguments) __typeof__(&name) name;
static struct {
  FUNCTIONS(POINTER, POINTER_VOID)
} library;

/* Hidden: the program's own must not be taken for the library's by anything else in the process. */
#define CALL(returns, name, parameters, arguments)                                                                   \
  __attribute__((visibility("hidden"))) returns name parameters { return library.name arguments; }
#define CALL_VOID(name, parameters, arguments)                                                                       \
  __attribute__((visibility("hidden"))) void name parameters { library.name arguments; }
FUNCTIONS(CALL, CALL_VOID)

char *ab_go_open(const char *path) {
  char *message = NULL;
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    if (asprintf(&message, "%s", dlerror()) < 0)
      return NULL;
    return message;
  }
  __typeof__(&ab_abi_version) abi_version = (__typeof__(&ab_abi_version))dlsym(handle, "ab_abi_version");
  uint32_t found = abi_version ? abi_version() : 0;
  if (found >> 16 != AB_ABI_MAJOR || (found & 0xffff) < AB_ABI_MINOR) {
    if (asprintf(&message, "%s: its ABI is %u.%u, and this package needs %u.%u or a later %u", path, found >> 16,
                 found & 0xffff, AB_ABI_MAJOR, AB_ABI_MINOR, AB_ABI_MAJOR) < 0)
      message = NULL;
    dlclose(handle);
    return message;
  }
#define FIND(returns, name, parameters, arguments) FIND_VOID(name, parameters, arguments)
#define FIND_VOID(name, parameters, arguments)                                                                       \
  library.name = (__typeof__(&name))dlsym(handle, #name);                                                            \
  if (library.name == NULL) {                                                                                        \
    if (asprintf(&message, "%s: it has no " #name, path) < 0)                                                        \
      message = NULL;                                                                                                \
    dlclose(handle);                                                                                                 \
    return message;                                                                                                  \
  }
  FUNCTIONS(FIND, FIND_VOID)
  return NULL;
}
