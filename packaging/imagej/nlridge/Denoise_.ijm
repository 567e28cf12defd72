// Plugins > nlridge > Denoise: remove noise from the active image or stack with nlridge.
//
// Installation: pipx install nlridge, and copy the folder nlridge, which holds this file, to the folder plugins of ImageJ
// or Fiji. Axes, calibration and lookup tables of the result are those of the image; so is its type. Frames of a time
// series, or else slices, are denoised together.
//
// In a script: runMacro(".../Denoise_.ijm", "command=nlridge options=[--method fast]").

settings = getArgument();
command = call("ij.Prefs.get", "nlridge.command", "nlridge");
options = call("ij.Prefs.get", "nlridge.options", "");
if (nImages == 0) exit("nlridge: there is no image; open one first");
if (settings != "") {
  command = value(settings, "command", command);
  options = value(settings, "options", "");
} else {
  Dialog.create("nlridge");
  Dialog.addString("Options", options, 40);
  Dialog.addMessage("such as --method best --strength 0.8 --noise poisson --frames time");
  Dialog.addString("Command", command, 40);
  Dialog.show();
  options = Dialog.getString();
  command = Dialog.getString();
  call("ij.Prefs.set", "nlridge.command", command);
  call("ij.Prefs.set", "nlridge.options", options);
}

title = getTitle();
id = getImageID();
getDimensions(width, height, channels, slices, frames);
together = "";
if (indexOf(options, "--frames") < 0) {
  if (frames > 1) together = "--frames time";
  else if (slices > 1) together = "--frames depth";
}
stamp = "nlridge-" + getTime() + "-" + floor(1e6 * random);
source = getDirectory("temp") + stamp + ".tif";
target = getDirectory("temp") + stamp + "-denoised.tif";
// A copy, since saving renames an image.
run("Duplicate...", "title=[" + stamp + "]" + duplicated(channels * slices * frames));
saveAs("Tiff", source);
close();
selectImage(id);
words = command + " denoise --quiet " + together + " " + options + " -o \"" + target + "\" \"" + source + "\" 2>&1";
showStatus("nlridge: denoising " + title);
if (startsWith(getInfo("os.name"), "Windows")) said = exec("cmd", "/c", words);
else said = exec("sh", "-c", words);
dummy = File.delete(source);
if (!File.exists(target)) exit("nlridge: there is no result. It said:\n" + said);
open(target);
dummy = File.delete(target);
rename(title + " denoised");
showStatus("nlridge: done");

function duplicated(planes) {
  if (planes > 1) return " duplicate";
  return "";
}

// The value of a key in "key=value key=[several words]".
function value(text, key, otherwise) {
  start = indexOf(text, key + "=");
  if (start < 0) return otherwise;
  rest = substring(text, start + lengthOf(key) + 1);
  stop = " ";
  if (startsWith(rest, "[")) {
    rest = substring(rest, 1);
    stop = "]";
  }
  end = indexOf(rest, stop);
  if (end < 0) return rest;
  return substring(rest, 0, end);
}
