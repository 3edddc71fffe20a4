-- What a plugin gets in place of the parts of Lua's library that could go on without end inside C, where no hook fires:
-- matching, `string.rep` of nothing, moves and sorts over lengths that a metatable made up, finalizers, message handlers.
-- It runs first; what it takes into locals no plugin can change.

local native = ...
local error, ipairs, next, select, tostring, type = error, ipairs, next, select, tostring, type
local raw_pcall, raw_setmetatable, raw_getmetatable = pcall, setmetatable, getmetatable
local sub, rep = string.sub, string.rep
local raw_concat, unpack, pack = table.concat, table.unpack, table.pack
local resume, close = coroutine.resume, coroutine.close
local math_type = math.type
local find, find_at, over, log = native.find, native.find_at, native.over, native.log

-- A call whose time is up ends whole: no handler of the plugin's own holds it.
local function checked(ok, ...)
  if not ok and over() then error((...), 0) end
  return ok, ...
end

local function guarded(f, ...)
  return checked(raw_pcall(f, ...))
end

pcall = guarded

-- Lua runs message handlers with hooks off where the error came from a hook: this one runs behind the call.
function xpcall(f, handler, ...)
  local function after(ok, ...)
    if ok then return true, ... end
    return false, select(2, guarded(handler, ...))
  end
  return after(guarded(f, ...))
end

function coroutine.resume(...)
  return checked(resume(...))
end

function coroutine.close(co)
  return checked(close(co))
end

-- Finalizers run with hooks off, and closing methods may: where a hook raises an error. What looks for them in a metatable looks
-- at a copy without them, which nobody changes later.
local original = raw_setmetatable({}, { __mode = "k" })

function setmetatable(t, metatable)
  if type(metatable) ~= "table" then return raw_setmetatable(t, metatable) end
  local copy = {}
  for name, value in next, metatable do
    if name == "__gc" or name == "__close" then error("plugins have no finalizers (__gc, __close)", 2) end
    copy[name] = value
  end
  original[copy] = metatable
  return raw_setmetatable(t, copy)
end

-- That of all strings, and those of errors, are nobody's to change.
function getmetatable(value)
  if type(value) ~= "table" then return nil end
  local metatable = raw_getmetatable(value)
  return original[metatable] or metatable
end

function print(...)
  local words = {}
  for index = 1, select("#", ...) do words[index] = tostring((select(index, ...))) end
  log(raw_concat(words, "\t"))
end

function string.rep(s, n, separator)
  if #s == 0 and (separator == nil or #separator == 0) then return "" end
  return rep(s, n, separator)
end

string.find = find

local function text(value, index, name)
  local kind = type(value)
  if kind == "string" then return value end
  if kind == "number" then return tostring(value) end
  error("bad argument #" .. index .. " to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end

function string.match(s, pattern, init)
  local found = pack(find(s, pattern, init))
  if found[1] == nil then return nil end
  if found.n == 2 then return sub(s, found[1], found[2]) end
  return unpack(found, 3, found.n)
end

-- The next match at `at` or behind it that is not empty right behind the last one.
local function following(s, pattern, at, last, anchored)
  while at <= #s + 1 do
    local found = pack(find_at(s, pattern, at, anchored))
    local from, to = found[1], found[2]
    if from == nil then return nil end
    if to >= from or to + 1 ~= last then return found end
    if anchored then return nil end
    at = from + 1
  end
end

local function captured(s, found)
  if found.n == 2 then return sub(s, found[1], found[2]) end
  return unpack(found, 3, found.n)
end

function string.gmatch(s, pattern, init)
  s, pattern = text(s, 1, "gmatch"), text(pattern, 2, "gmatch")
  local at, last = init or 1, nil
  if at < 0 then at = #s + at + 1 end
  if at < 1 then at = 1 end
  return function()
    local found = following(s, pattern, at, last, nil)
    if found == nil then
      at = #s + 2
      return nil
    end
    at = found[2] + 1
    last = at
    return captured(s, found)
  end
end

local function expanded(replacement, s, found)
  local out, at = {}, 1
  while true do
    local mark = find(replacement, "%", at, true)
    if mark == nil then
      out[#out + 1] = sub(replacement, at)
      return raw_concat(out)
    end
    out[#out + 1] = sub(replacement, at, mark - 1)
    local sign = sub(replacement, mark + 1, mark + 1)
    if sign == "%" then
      out[#out + 1] = "%"
    elseif sign == "0" or sign == "1" and found.n == 2 then
      out[#out + 1] = sub(s, found[1], found[2])
    elseif find(sign, "^[1-9]$") then
      local capture = found[2 + sign]
      if capture == nil then error("invalid capture index %" .. sign .. " in replacement string", 3) end
      out[#out + 1] = tostring(capture)
    else
      error("invalid use of '%' in replacement string", 3)
    end
    at = mark + 2
  end
end

function string.gsub(s, pattern, replacement, most)
  s, pattern = text(s, 1, "gsub"), text(pattern, 2, "gsub")
  local kind = type(replacement)
  if kind == "number" then
    replacement, kind = tostring(replacement), "string"
  end
  if kind ~= "string" and kind ~= "table" and kind ~= "function" then
    error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 2)
  end
  local anchored = sub(pattern, 1, 1) == "^"
  local out, kept, at, last, count = {}, 1, 1, nil, 0
  while most == nil or count < most do
    local found = following(s, pattern, at, last, anchored)
    if found == nil then break end
    count = count + 1
    local value
    if kind == "string" then
      value = expanded(replacement, s, found)
    elseif kind == "table" then
      value = replacement[(captured(s, found))]
    else
      value = replacement(captured(s, found))
    end
    if not value then
      value = sub(s, found[1], found[2])
    elseif type(value) ~= "string" and type(value) ~= "number" then
      error("invalid replacement value (a " .. type(value) .. ")", 2)
    end
    out[#out + 1] = sub(s, kept, found[1] - 1)
    out[#out + 1] = value
    kept = found[2] + 1
    at, last = kept, kept
    if anchored then break end
  end
  out[#out + 1] = sub(s, kept)
  return raw_concat(out), count
end

function table.insert(t, ...)
  local count, n = select("#", ...), #t
  if count == 1 then
    t[n + 1] = (...)
    return
  end
  if count ~= 2 then error("wrong number of arguments to 'insert'", 2) end
  local position, value = ...
  if math_type(position) ~= "integer" or position < 1 or position > n + 1 then
    error("bad argument #2 to 'insert' (position out of bounds)", 2)
  end
  for index = n, position, -1 do t[index + 1] = t[index] end
  t[position] = value
end

function table.remove(t, position)
  local n = #t
  position = position or n
  if position ~= n and (position < 1 or position > n + 1) then
    error("bad argument #2 to 'remove' (position out of bounds)", 2)
  end
  local value = t[position]
  while position < n do
    t[position] = t[position + 1]
    position = position + 1
  end
  t[position] = nil
  return value
end

function table.concat(t, separator, i, j)
  local out = {}
  for index = i or 1, j or #t do
    local value = t[index]
    if type(value) ~= "string" and type(value) ~= "number" then
      error("invalid value (at index " .. index .. ") in table for 'concat'", 2)
    end
    out[#out + 1] = value
  end
  return raw_concat(out, separator)
end

function table.move(from, first, last, to, target)
  target = target or from
  if to > last or to <= first or target ~= from then
    for index = 0, last - first do target[to + index] = from[first + index] end
  else
    for index = last - first, 0, -1 do target[to + index] = from[first + index] end
  end
  return target
end

local function less(a, b) return a < b end

-- A merge sort: stable, and every step of it is one that a hook sees.
function table.sort(t, before)
  before = before or less
  local n = #t
  local source, target = {}, {}
  for index = 1, n do source[index] = t[index] end
  local width = 1
  while width < n do
    for from = 1, n, 2 * width do
      local left, right, at = from, from + width, from
      local middle, stop = from + width, from + 2 * width
      if middle > n + 1 then middle = n + 1 end
      if stop > n + 1 then stop = n + 1 end
      while left < middle or right < stop do
        if right >= stop or left < middle and not before(source[right], source[left]) then
          target[at], left = source[left], left + 1
        else
          target[at], right = source[right], right + 1
        end
        at = at + 1
      end
    end
    source, target = target, source
    width = width * 2
  end
  for index = 1, n do t[index] = source[index] end
end

for _, name in ipairs({ "collectgarbage", "debug", "dofile", "io", "load", "loadfile", "package", "require", "warn" }) do
  _G[name] = nil
end
string.dump = nil
local date, clock, time = os.date, os.clock, os.time
for name in next, os do os[name] = nil end
os.date, os.clock, os.time = date, clock, time
