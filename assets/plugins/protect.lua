-- protect: keeps some paths from being written, and asks before a shell command that names one of them.

-- Patterns of Lua, matched against the path as the model gave it. The first that fits counts.
local PROTECTED = {
  { "%.env$", "holds secrets" },
  { "%.env%.[%w_-]+$", "holds secrets", except = "%.env%.example$" },
  { "%.pem$", "is a key or a certificate" },
  { "%.key$", "is a key" },
  { "id_[%w]+$", "is a key", only = "%.ssh/" },
  { "^%.git/", "belongs to git" },
  { "/%.git/", "belongs to git" },
  { "package%-lock%.json$", "is written by npm" },
  { "pnpm%-lock%.yaml$", "is written by pnpm" },
  { "yarn%.lock$", "is written by yarn" },
  { "Cargo%.lock$", "is written by cargo" },
  { "poetry%.lock$", "is written by poetry" },
  { "uv%.lock$", "is written by uv" },
}

local function protected(path)
  for _, rule in ipairs(PROTECTED) do
    local fits = path:find(rule[1])
    if fits and rule.only then fits = path:find(rule.only) end
    if fits and rule.except then fits = not path:find(rule.except) end
    if fits then return "`" .. path .. "` " .. rule[2] end
  end
end

return {
  name = "protect",
  version = "1.0",
  description = "keeps paths such as .env, keys and lock files from being written",

  on_tool_start = function(event)
    if event.tool_name == "write" or event.tool_name == "edit" then
      local path = event.args.path
      local why = type(path) == "string" and protected(path)
      if why then return { action = "block", reason = why .. " and is not to be written by hand" } end
    elseif event.tool_name == "bash" then
      for word in event.arguments:gmatch("[^%s'\"<>|;&()=]+") do
        local why = protected(word)
        if why then return { action = "ask", reason = why } end
      end
    end
  end,
}
