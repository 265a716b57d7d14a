// A deleter, an owner's release and an allocator that throw, which C functions must not: the process ends at the
// boundary. The argument says which.
#include <arraybridge/arraybridge.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace {
float data[4];
int64_t shape[] = {4};

void deleter(DLManagedTensorVersioned *) { throw std::runtime_error("a deleter"); }
void release(void *) { throw std::runtime_error("an owner"); }
void *memory(void *, int32_t, int32_t, size_t, size_t, int64_t) { return data; }
void *allocate(void *, int32_t, int32_t, size_t, size_t, int64_t) { throw std::runtime_error("an allocator"); }
void deallocate(void *, int32_t, int32_t, void *, size_t, int64_t) { throw std::runtime_error("an allocator"); }
}  // namespace

int main(int argc, char **argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  DLManagedTensorVersioned source, *out = nullptr;
  ab_convert_options options;
  ab_allocator allocator = {nullptr, which == "allocate" ? allocate : memory, deallocate};
  float other[] = {1, 2, 3, 4};
  std::memset(&source, 0, sizeof source);
  std::memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  source.version.major = 1;
  source.deleter = deleter;
  source.dl_tensor.data = other;
  source.dl_tensor.device.device_type = kDLCPU;
  source.dl_tensor.ndim = 1;
  source.dl_tensor.dtype = {kDLFloat, 32, 1};
  source.dl_tensor.shape = shape;
  try {
    if (which == "release") ab_release(&source);
    options.copy = AB_COPY_ALWAYS;
    if (which == "copy") ab_convert(nullptr, &source, &options, &out, nullptr, nullptr);
    options.copy = AB_COPY_IF_NEEDED;
    if (which == "shared" && ab_convert(nullptr, &source, &options, &out, nullptr, nullptr) == AB_OK)
      out->deleter(out);
    if (which == "owner" && ab_wrap(&source.dl_tensor, 0, nullptr, release, &out, nullptr) == AB_OK) ab_release(out);
    options.allocator = &allocator;
    const auto copied = [&] { return ab_copy(nullptr, &source.dl_tensor, 0, &options, &out, nullptr, nullptr); };
    if ((which == "allocate" || which == "deallocate") && copied() == AB_OK) ab_release(out);
  } catch (const std::exception &) {
    return 1;  // It has left the library half done.
  }
  return which == "nothing" ? 0 : 2;
}
