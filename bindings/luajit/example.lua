-- Plain memory through the plain shared library, with LuaJIT's FFI: arraybridge.cdef is all it needs.
--
-- usage: luajit example.lua    ARRAYBRIDGE_LIBRARY: the shared library, else target/release/libarraybridge.so

-- [page]
local ffi = require("ffi")

local here = arg[0]:match("^(.*)/[^/]*$") or "."
ffi.cdef(assert(io.open(here .. "/../arraybridge.cdef")):read("*a"))
local path = os.getenv("ARRAYBRIDGE_LIBRARY") or "./target/release/libarraybridge.so"
local ab = ffi.load(path)
local major, minor = bit.rshift(ab.ab_abi_version(), 16), bit.band(ab.ab_abi_version(), 0xffff)
if major ~= ab.AB_ABI_MAJOR or minor < ab.AB_ABI_MINOR then
  local needed = ("%d.%d or a later minor version is needed"):format(ab.AB_ABI_MAJOR, ab.AB_ABI_MINOR)
  error(("%s has ABI %d.%d: %s"):format(path, major, minor, needed))
end

local function struct(kind, fields)
  local made = ffi.new(kind, fields or {})
  made.struct_size = ffi.sizeof(kind)
  return made
end

-- Calls a function whose last parameter is an ab_error, and raises its message.
local function call(name, ...)
  local failure = struct("ab_error")
  local arguments = { ... }
  arguments[select("#", ...) + 1] = failure
  if ab[name](unpack(arguments, 1, select("#", ...) + 1)) ~= ab.AB_OK then
    error(ffi.string(failure.message), 0)
  end
end

local function dtype(name)
  local found = ffi.new("DLDataType")
  call("ab_dtype_parse", name, found)
  return found
end

-- A DLTensor over memory, and what it points to: keep both as long as it is used.
local function tensor(data, name, shape, strides)
  local ndim = #shape
  local kept = { data, ffi.new("int64_t[?]", ndim, shape), strides and ffi.new("int64_t[?]", ndim, strides) }
  local view = { data = data, device = { ab.kDLCPU, 0 }, ndim = ndim, dtype = dtype(name) }
  view.shape, view.strides = kept[2], kept[3] or nil
  return ffi.new("DLTensor", view), kept
end
-- [/page]

-- [page]
-- [readme]
local pixels = ffi.new("uint8_t[6]", 10, 20, 30, 11, 21, 31) -- 2 x 3 in memory, 3 x 2 by these strides
local picture, kept = tensor(pixels, "uint8", { 3, 2 }, { 1, 3 })
-- [/readme]

-- What is it? Nothing is read but the struct.
local info = struct("ab_tensor_info")
call("ab_detect", picture, 0, info)
local dense = bit.band(info.flags, ab.AB_TENSOR_DENSE) ~= 0
print("detect: " .. tonumber(info.num_elements) .. " elements, " .. (dense and "dense" or "with gaps"))

local function floats(managed)
  local data, list = ffi.cast("float *", managed.dl_tensor.data), {}
  for index = 0, 5 do
    list[#list + 1] = data[index]
  end
  return table.concat(list, " ")
end

-- [readme]
-- Cast and transposed, in one pass, to memory of the library's, which ffi.gc releases.
local options = struct("ab_convert_options", { dtype = dtype("float32"), layout = ab.AB_LAYOUT_C })
local report, out = struct("ab_report"), ffi.new("struct DLManagedTensorVersioned *[1]")
call("ab_copy", nil, picture, 0, options, out, report)
local planes = ffi.gc(out[0], ab.ab_release)
-- [/readme]
print("copy: " .. floats(planes))

-- The same memory under another owner: ab_wrap makes it a managed tensor, which ab_convert takes over.
call("ab_wrap", picture, 0, nil, nil, out)
call("ab_convert", nil, out[0], nil, out, report)
local shared = ffi.gc(out[0], ab.ab_release)
ffi.cast("uint8_t *", shared.dl_tensor.data)[0] = 7
print("convert: " .. (report.route == ab.AB_ROUTE_ZERO_COPY and "zero copy, " or "a copy, ") .. pixels[0])

-- Into memory that is there.
local numbers = ffi.new("int16_t[6]")
local target, also_kept = tensor(numbers, "int16", { 3, 2 })
call("ab_copy_into", nil, picture, 0, target, 0, nil, nil)
print("copy_into: " .. numbers[0] .. " " .. numbers[1] .. " " .. numbers[5])

-- What cannot be done says why.
options.copy = ab.AB_COPY_NEVER
local done, message = pcall(call, "ab_plan", nil, picture, 0, options, report)
print("refused: " .. message)
-- [/page]
