-- checks: after each edit, runs the checks that fit the file, and feeds what fails back to the model.
--
-- It asks for `exec`: the commands run with your rights, outside the sandbox. Change the list to what your project uses.
-- A check should look and not write: a file that is formatted behind the model's back must be read again before the next edit.

-- {path} stands for the file, quoted for the shell. A check whose program is missing is passed over.
local CHECKS = {
  { match = "%.rs$", program = "rustfmt", run = "rustfmt --check --edition 2024 {path}", timeout = 30 },
  { match = "%.py$", program = "ruff", run = "ruff check --quiet {path}", timeout = 30 },
  { match = "%.go$", program = "gofmt", run = 'test -z "$(gofmt -l {path})" || { gofmt -d {path}; exit 1; }', timeout = 30 },
  { match = "%.[jt]sx?$", program = "prettier", run = "prettier --check {path}", timeout = 60 },
  { match = "%.sh$", program = "bash", run = "bash -n {path}", timeout = 10 },
  { match = "%.json$", program = "python3", run = "python3 -m json.tool {path} > /dev/null", timeout = 10 },
}

-- So much of a check's output goes to the model.
local MOST = 4000

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

return {
  name = "checks",
  version = "1.0",
  description = "runs a formatter or test after edits and feeds failures back",
  permissions = { "exec" },

  on_tool_end = function(event)
    if event.is_error or event.tool_name ~= "edit" and event.tool_name ~= "write" then return end
    local path = event.args.path
    if type(path) ~= "string" then return end
    local failures = {}
    for _, check in ipairs(CHECKS) do
      if path:find(check.match) then
        local command = check.run:gsub("{path}", function() return quoted(path) end)
        local result = violin.run("command -v " .. check.program .. " > /dev/null || exit 0\n" .. command, check.timeout)
        if result.timed_out then
          failures[#failures + 1] = "[checks: `" .. command .. "` took longer than " .. check.timeout .. " s]"
        elseif result.exit_code ~= 0 then
          local output = result.output
          if #output > MOST then output = output:sub(1, MOST) .. "\n[cut here]" end
          failures[#failures + 1] =
            "[checks: `" .. command .. "` failed with exit code " .. tostring(result.exit_code) .. "]\n" .. output
        end
      end
    end
    if #failures > 0 then
      return { action = "modify", content = event.content .. "\n\n" .. table.concat(failures, "\n\n") }
    end
  end,
}
