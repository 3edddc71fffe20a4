-- guard: blocks shell commands that destroy, asks for those that reach far, and runs the rest under `set -e`.
--
-- It reads the text of a command and cannot see what a script does: the sandbox of the mode `auto` is what holds.

-- Never run. Patterns of Lua, matched against each part of a command line between ; & | and newlines.
local BLOCK = {
  { "^mkfs", "makes a new file system" },
  { "^dd%s.*of=/dev/", "writes over a device" },
  { "^shred%s", "destroys files for good" },
  { ">%s*/dev/[sn][dv]", "writes over a device" },
  { ":%(%)%s*{", "is a fork bomb" },
}

-- Run after a yes of the person's.
local ASK = {
  { "^sudo%s", "runs as root" },
  { "^git%s+reset%s+%-%-hard", "throws away changes that are not committed" },
  { "^git%s+clean%s+%-%w*f", "deletes files that git does not know" },
  { "^git%s+push%s.*%-%-force", "rewrites what others have" },
  { "^git%s+push%s.*%s%-f", "rewrites what others have" },
  { "^chmod%s+%-R", "changes the mode of whole folders" },
  { "^chown%s+%-R", "changes the owner of whole folders" },
  { "^npm%s+publish", "publishes a package" },
  { "^cargo%s+publish", "publishes a crate" },
}

-- The parts of a command line, without the words that only wrap another command.
local function parts(command)
  local list = {}
  for part in command:gmatch("[^;&|\n]+") do
    part = part:gsub("^[%s%(]+", "")
    while true do
      local rest = part:match("^[%a_][%w_]*=%S*%s+(.+)$") or part:match("^exec%s+(.+)$") or part:match("^time%s+(.+)$")
      if rest == nil then break end
      part = rest
    end
    list[#list + 1] = part
  end
  return list
end

-- Whether a part deletes whole folders, and whether it reaches further than a named folder of the project.
local function deletes(part)
  if not part:find("^rm%s") then return false, false end
  local folders, far = false, false
  for word in part:gmatch("%S+") do
    if word:find("^%-%-recursive") or word:find("^%-%a*[rR]") then folders = true end
    local plain = word:gsub("[\"']", "")
    if plain:find("^[/~]") or plain:find("%$") or plain:find("^%.%.?/?$") or plain:find("^%.%./") or plain:find("^%*") then
      far = true
    end
  end
  return folders, far
end

local function found(rules, command)
  for _, part in ipairs(parts(command)) do
    local folders, far = deletes(part)
    if folders and far == (rules == BLOCK) then
      return "`" .. part .. "` deletes whole folders" .. (far and ", and not only named ones of the project" or "")
    end
    for _, rule in ipairs(rules) do
      if part:find(rule[1]) then return "`" .. part .. "` " .. rule[2] end
    end
  end
end

return {
  name = "guard",
  version = "1.0",
  description = "blocks or asks for dangerous shell commands, and runs the rest under set -e",

  on_tool_start = function(event)
    if event.tool_name ~= "bash" then return end
    local command = event.arguments
    local why = found(BLOCK, command)
    if why then return { action = "block", reason = why } end
    -- What is piped into a shell comes from somewhere else.
    if command:find("|%s*[%w/]*sh%s*$") or command:find("|%s*[%w/]*sh%s+%-") then
      why = "what is piped into a shell was seen by nobody"
    end
    why = why or found(ASK, command)
    if why then return { action = "ask", reason = why } end
    if not command:find("^%s*set%s") then
      return { action = "modify", arguments = "set -e; " .. command }
    end
  end,
}
