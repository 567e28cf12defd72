--[[
nlridge.lua: remove noise from raw files with nlridge, before anything else is done.

Select raw files in the lighttable and press "denoise" in the module "nlridge" on the right. Each becomes a DNG file beside
the original, NAME_denoised.dng, in the group of the original, with its tags, rating, color labels, metadata and history.

Installation: pipx install "nlridge[raw]", copy this file to the folder lua in the configuration of darktable
(~/.config/darktable/lua on Linux), and add the line  require "nlridge"  to the file luarc beside that folder.
Settings: preferences > Lua options.
]]

local dt = require "darktable"

local NAME = "nlridge"
local METADATA = {"title", "description", "creator", "publisher", "rights", "notes"}
local CAMERA_NOISE = {"denoiseprofile", "rawdenoise"}  -- denoise (profiled) and raw denoise
local LABELS = {"red", "yellow", "green", "blue", "purple"}

dt.preferences.register(NAME, "command", "string", "nlridge: command",
  "the program, with its folder if darktable does not find it", "nlridge")
dt.preferences.register(NAME, "options", "string", "nlridge: options",
  "options of 'nlridge denoise', such as --strength 0.8 --method best", "")

local function quoted(word)
  if dt.configuration.running_os == "windows" then
    return '"' .. word .. '"'
  end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- A name that no file has: nothing is overwritten.
local function new_name(image)
  local stem = image.path .. "/" .. image.filename:gsub("%.[^.]*$", "") .. "_denoised"
  local path, number = stem .. ".dng", 1
  while exists(path) do
    path, number = string.format("%s_%02d.dng", stem, number), number + 1
  end
  return path
end

local function copy_metadata(old, new)
  for _, tag in ipairs(dt.tags.get_tags(old)) do
    if not tag.name:find("^darktable|") then  -- those are about the file
      dt.tags.attach(tag, new)
    end
  end
  for _, name in ipairs(METADATA) do
    if old[name] ~= nil and old[name] ~= "" then new[name] = old[name] end
  end
  for _, label in ipairs(LABELS) do new[label] = old[label] end
  new.rating = old.rating
end

-- A history, as a style in XML, in which modules that go by the noise of the camera are turned off: there is none left.
local function without_denoising(text)
  return (text:gsub("<plugin>.-</plugin>", function(plugin)
    for _, operation in ipairs(CAMERA_NOISE) do
      if plugin:find("<operation>" .. operation .. "</operation>", 1, true) then
        return (plugin:gsub("<enabled>1</enabled>", "<enabled>0</enabled>"))
      end
    end
  end))
end

local function style_named(name)
  for _, style in ipairs(dt.styles) do
    if style.name == name then return style end
  end
end

-- A style is the only way by which scripts copy a history, and its file the only way to change one.
local function copy_history(old, new)
  if not old.is_altered then return end
  local name = "nlridge-" .. old.id
  local style = dt.styles.create(old, name, "")
  if style == nil then return end
  dt.styles.export(style, dt.configuration.tmp_dir, true)
  local path = dt.configuration.tmp_dir .. "/" .. name .. ".dtstyle"
  local file = io.open(path, "rb")
  if file then
    local text = file:read("a")
    file:close()
    file = io.open(path, "wb")
    file:write(without_denoising(text))
    file:close()
    dt.styles.delete(style)
    dt.styles.import(path)
    os.remove(path)
    style = style_named(name)
    if style == nil then return end
  end
  dt.styles.apply(style, new)
  dt.styles.delete(style)
  for _, tag in ipairs(dt.tags.get_tags(new)) do
    if tag.name == "darktable|style|" .. name then dt.tags.delete(tag) end
  end
end

local function denoise_one(image)
  local target = new_name(image)
  local command = table.concat({
    quoted(dt.preferences.read(NAME, "command", "string")), "denoise --quiet",
    dt.preferences.read(NAME, "options", "string"),
    "-o", quoted(target), quoted(image.path .. "/" .. image.filename),
  }, " ")
  if dt.configuration.running_os == "windows" then command = '"' .. command .. '"' end
  dt.print_log(command)
  if dt.control.execute(command) ~= 0 or not exists(target) then
    return nil
  end
  local new = dt.database.import(target)
  new:group_with(image.group_leader)
  copy_metadata(image, new)
  copy_history(image, new)
  return new
end

local function denoise(images)
  local stopped, failed, done = false, {}, 0
  local job = dt.gui.create_job("nlridge", true, function() stopped = true end)
  for number, image in ipairs(images) do
    if stopped then break end
    if denoise_one(image) then
      done = done + 1
    else
      table.insert(failed, image.filename)
    end
    job.percent = number / #images
  end
  job.valid = false
  if #failed > 0 then
    dt.print_error("nlridge: no result for " .. table.concat(failed, ", "))
    dt.print("nlridge: no result for " .. table.concat(failed, ", ")
      .. "; 'nlridge denoise' in a terminal says why")
  else
    dt.print(string.format("nlridge: %d denoised", done))
  end
  return done
end

dt.register_lib(NAME, NAME, true, false,
  {[dt.gui.views.lighttable] = {"DT_UI_CONTAINER_PANEL_RIGHT_CENTER", 100}},
  dt.new_widget("button") {
    label = "denoise",
    tooltip = "remove noise from the selected raw files",
    clicked_callback = function() dt.control.dispatch(denoise, dt.gui.selection()) end,
  })

return {denoise = denoise}
