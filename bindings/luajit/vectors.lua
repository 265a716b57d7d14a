-- Runs tests/vectors through LuaJIT, and records what came of it in target/bindings. The README of
-- tests/vectors says what counts as one.
--
-- usage: luajit vectors.lua    ARRAYBRIDGE_LIBRARY: the shared library, else target/release/libarraybridge.so

local ffi = require("ffi")

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local root = here .. "/../.."

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

ffi.cdef(read(here .. "/../arraybridge.cdef"))
local ab = ffi.load(os.getenv("ARRAYBRIDGE_LIBRARY") or "./target/release/libarraybridge.so")
local OK, LOSSY, UNSUPPORTED_DTYPE = ab.AB_OK, ab.AB_E_LOSSY, ab.AB_E_UNSUPPORTED_DTYPE

-- ---- JSON, as far as the vectors use it ------------------------------------------------------------

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function utf8(code)
  if code < 0x80 then
    return string.char(code)
  end
  local tail, first = "", 0x40
  repeat
    tail = string.char(0x80 + code % 0x40) .. tail
    code, first = math.floor(code / 0x40), first / 2
  until code < first
  return string.char(0x100 - 2 * first + code) .. tail
end

local function unescaped(text)
  text = text:gsub("\\u([dD][89abAB]%x%x)\\u([dD][c-fC-F]%x%x)", function(high, low)
    return utf8(0x10000 + (tonumber(high, 16) - 0xd800) * 0x400 + tonumber(low, 16) - 0xdc00)
  end)
  text = text:gsub("\\u(%x%x%x%x)", function(code)
    return code == "005c" and "\\\\" or utf8(tonumber(code, 16))
  end)
  return (text:gsub("\\(.)", function(letter)
    return ESCAPES[letter] or letter
  end))
end

local WORDS = { ["true"] = true, ["false"] = false }

-- The value at a place in a text, and the place behind it. null is nil.
local function parse(text, at)
  at = text:find("%S", at)
  local letter = text:sub(at, at)
  if letter == "{" or letter == "[" then
    local found, key = {}, 0
    at = text:find("%S", at + 1)
    while not text:find("^[%]}]", at) do
      if letter == "[" then
        key = key + 1
      else
        key, at = parse(text, at)
        at = text:find(":", at, true) + 1
      end
      found[key], at = parse(text, at)
      at = text:find("[^%s,]", at)
    end
    return found, at + 1
  elseif letter == '"' then
    local stop = at
    repeat
      stop = text:find('["\\]', stop + 1)
      local escaped = text:sub(stop, stop) == "\\"
      stop = escaped and stop + 1 or stop
    until not escaped
    return unescaped(text:sub(at + 1, stop - 1)), stop + 1
  end
  local word = text:match("^[^%s,%]}]+", at)
  return WORDS[word] == nil and tonumber(word) or WORDS[word], at + #word
end

local function json(name)
  return (parse(read(root .. "/tests/vectors/" .. name), 1))
end

-- ---- copies ----------------------------------------------------------------------------------------

local options = ffi.new("ab_convert_options")
options.struct_size = ffi.sizeof(options)

local function numbers(list)
  return list and ffi.new("int64_t[?]", math.max(#list, 1), list) or nil
end

-- data, dtype, shape, strides, byte_offset, padded
local function side(data, dtype, shape, strides, byte_offset, padded)
  local kept = { data, numbers(shape), numbers(strides) }
  local view = { data = data, device = { ffi.C.kDLCPU, 0 }, ndim = #shape, dtype = dtype, shape = kept[2] }
  view.strides, view.byte_offset = kept[3], byte_offset
  local flags = padded and ab.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED or 0
  return { tensor = ffi.new("DLTensor", view), flags = flags, kept = kept }
end

local function copy_into(source, destination, casting, flags)
  options.casting, options.flags = casting, flags
  return ab.ab_copy_into(nil, source.tensor, source.flags, destination.tensor, destination.flags, options, nil, nil)
end

local function named(name)
  local found = ffi.new("DLDataType")
  return found, ab.ab_dtype_parse(name, found, nil)
end

local function bytes(name)
  local text = read(root .. "/tests/vectors/" .. name)
  local data = ffi.new("uint8_t[?]", #text)
  ffi.copy(data, text, #text)
  return data
end

-- ---- the vectors -----------------------------------------------------------------------------------

local passed, wrong = 0, {}

local function check(holds, what)
  if holds then
    passed = passed + 1
  else
    wrong[#wrong + 1] = what
  end
end

local index = json("casts.json")

local function same(left, right, size)
  for at = 0, size - 1 do
    if left[at] ~= right[at] then
      return false
    end
  end
  return true
end

-- Forwards, backwards and with gaps: each goes through other loops.
local WAYS = { { 1, 0 }, { 1, ab.AB_CONVERT_SATURATE }, { -1, 0 }, { 2, ab.AB_CONVERT_SATURATE }, { 3, 0 } }

local function casts()
  local data = bytes("casts.bin")
  local room = ffi.new("uint8_t[16]")
  for _, cast in ipairs(index.casts) do
    local from, to = named(cast.from), named(cast.to)
    local input, width = index.inputs[cast.from], index.inputs[cast.to].itemsize
    local count, first = input.count, data + input.offset
    local holds = true
    for _, way in ipairs(WAYS) do
      local step, flags = way[1], way[2]
      local result = ffi.new("uint8_t[?]", count * width * math.abs(step))
      local begin = step < 0 and (count - 1) * width or 0
      local source = side(first, from, { count }, nil, 0, true)
      local status = copy_into(source, side(result, to, { count }, { step }, begin, true), ab.AB_CAST_UNSAFE, flags)
      holds = holds and status == OK
      local expected = data + (flags == 0 and cast.offset or cast.saturate_offset)
      for element = 0, count - 1 do
        holds = holds and same(result + begin + element * step * width, expected + element * width, width)
      end
    end
    check(holds, cast.from .. " to " .. cast.to)
    if cast.from ~= cast.to then
      local exactly = true
      local destination = side(room, to, {}, nil, 0, true)
      for element = 0, count - 1 do
        local source = side(first + element * input.itemsize, from, {}, nil, 0, true)
        local want = data[cast.exact_offset + element] == 1 and OK or LOSSY
        exactly = exactly and copy_into(source, destination, ab.AB_CAST_EXACT, 0) == want
      end
      check(exactly, cast.from .. " to " .. cast.to .. ", exactly")
    end
  end
end

local function casting_rules()
  local allowed = json("can_cast.json")
  local source, destination = ffi.new("uint8_t[16]"), ffi.new("uint8_t[16]")
  for rule, casting in pairs({ safe = ab.AB_CAST_SAFE, same_kind = ab.AB_CAST_SAME_KIND }) do
    local pairs_of = {}
    for _, pair in ipairs(allowed[rule]) do
      pairs_of[pair[1] .. " " .. pair[2]] = true
    end
    for from in pairs(index.inputs) do
      for to in pairs(index.inputs) do
        local status = copy_into(side(source, named(from), {}), side(destination, named(to), {}), casting, 0)
        check(status == (pairs_of[from .. " " .. to] and OK or LOSSY), rule .. " " .. from .. " to " .. to)
      end
    end
  end
end

local function spellings()
  local name = ffi.new("char[64]")
  for _, case in ipairs(json("dtypes.json")) do
    local dtype, status = named(case.text)
    if case.refused then
      check(status == UNSUPPORTED_DTYPE, case.text:sub(1, 40) .. " is not refused")
    else
      ab.ab_dtype_format(dtype, name, 64)
      local fits = dtype.code == case.code and dtype.bits == case.bits and dtype.lanes == case.lanes
      check(status == OK and fits and ffi.string(name) == case.name, case.text:sub(1, 40))
    end
  end
end

local function layouts()
  local data = bytes("layouts.bin")
  for _, case in ipairs(json("layouts.json")) do
    local src, dst = case.src, case.dst
    local result = ffi.new("uint8_t[?]", dst.size + 16)
    -- As well aligned as the vectors ask for.
    local start = result + tonumber(bit.band(-ffi.cast("intptr_t", result), 15))
    ffi.copy(start, data + dst.before_offset, dst.size)
    local function half(place, dtype, given)
      local kind = ffi.new("DLDataType", dtype.code, dtype.bits, dtype.lanes)
      return side(place, kind, case.shape, given.strides, given.byte_offset, given.padded)
    end
    local source = half(data + src.offset, case.from, src)
    local status = copy_into(source, half(start, case.to, dst), ab.AB_CAST_UNSAFE, 0)
    check(status == OK and same(start, data + dst.after_offset, dst.size), case.name)
  end
end

casts()
casting_rules()
spellings()
layouts()

os.execute("mkdir -p '" .. root .. "/target/bindings'")
local results = assert(io.open(root .. "/target/bindings/luajit.json", "w"))
results:write(('{"binding": "luajit", "passed": %d, "skipped": [], "failed": %d}\n'):format(passed, #wrong))
results:close()
if #wrong > 0 then
  io.stderr:write(table.concat(wrong, "\n", 1, math.min(#wrong, 20)), "\n")
  os.exit(1)
end
