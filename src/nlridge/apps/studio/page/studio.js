// The studio: what a person sees and does. Whatever comes from files or from the server is shown as text, never as markup.
import { download, listen, request, upload } from "./api.js";
import { drawRectangle } from "./sampler.js";
import { makeThumbnails } from "./thumbnails.js";
import { addressOf, makeTiles, topLevel } from "./tiles.js";
import { SAY, WORDS } from "./words.js";

const at = (id) => document.getElementById(id);
const easel = at("easel");
for (const place of document.querySelectorAll("[data-words]")) place.textContent = WORDS[place.dataset.words];
for (const place of document.querySelectorAll("[data-label]")) place.setAttribute("aria-label", WORDS[place.dataset.label]);
const images = new Map();  // as the server describes them, with what the page adds: see `adopt`
const uploads = [];
let current = null, folder = null, methods = [], adjustments = [], defaults = {}, largest = Infinity;
let view = null;  // what the stage shows: {scale, x, y, width, height}
let peeking = false;  // the image before is shown while a key is held
let stopSampling = null;

// Messages.

function showError(error) {
  const sentence = error instanceof Error ? error.message : error;
  const [words] = at("error").getElementsByTagName("p");
  words.textContent = sentence;
  at("error").hidden = false;
}
at("error").querySelector("button").addEventListener("click", () => { at("error").hidden = true; });

// Runs an action, and shows its error if it fails.
async function tried(action) {
  try { return await action(); } catch (error) { showError(error); return null; }
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Images.

const isDeep = (image) => image.dtype !== "uint8";

// Takes over what the server says about an image, and keeps what the page knows of it.
function adopt(described) {
  const known = images.get(described.id);
  const { finished, failed, ...rest } = described;
  if (known && known.sending) rest.settings = known.settings;  // the server does not know these yet
  const image = Object.assign(known || {}, rest, { result: finished, error: failed || "", progress: null });
  if (!known) {
    Object.assign(image, {
      frame: 0, channel: image.color || image.channels.length < 2 ? null : 0,
      black: image.low, white: image.high, changed: false, sending: false,
    });
    images.set(image.id, image);
  }
  return image;
}

function forget(id) {
  images.delete(id);
  tiles.forget(id);
  if (current && current.id === id) show([...images.values()].at(-1) || null);
  else drawShelf();
}

function show(image) {
  if (stopSampling) stopSampling();
  const same = current && image && current.width === image.width && current.height === image.height;
  current = image;
  for (const [id, hidden] of [["welcome", image], ["easel", !image], ["panel", !image]]) at(id).hidden = Boolean(hidden);
  document.title = image ? SAY.title(image.name) : SAY.studio;
  drawShelf();
  drawFolder();
  if (!image) return;
  drawPanel();
  if (same) stage.draw();
  else stage.replace(image.width, image.height);
}

// The stage.

const CANVASES = { left: at("left"), right: at("right"), second: at("second") };
const tiles = makeTiles(repaint);
let willPaint = false;
function repaint() {  // at most once a frame
  if (willPaint) return;
  willPaint = true;
  requestAnimationFrame(() => {
    willPaint = false;
    paint(view);
  });
}
const stage = mountStage(easel, 1, 1, { fills: true, wheel: true, paint });
const chosenView = () => easel.querySelector("[name=view]:checked").value;

// What is shown of a layer: see `addressOf`.
const lookAt = (image, layer) => ({
  layer, revision: layer === "before" ? 0 : image.revision, frame: image.frame, channel: image.channel,
  low: isDeep(image) ? image.black : null, high: isDeep(image) ? image.white : null,
});

function paint(newView) {
  view = newView;
  if (!current || !view) return;
  const image = current;
  const kind = peeking ? "single" : chosenView();
  const { other, method } = image.settings;
  const against = other && !peeking ? "other" : "before";
  const noise = image.noise ? image.noise.shown : 0;  // what was removed is shown from -4 to 4 times the noise
  const amplified = noise > 0 ? ` × ${inFewDigits((image.white - image.black) / 8 / noise, 2)}` : "";
  const names = { before: SAY.before, other, after: other ? method : SAY.after, removed: SAY.removed(amplified) };
  const shown = { slider: { left: against, right: "after" }, side: { left: against, second: "after" }, removed: { left: "removed" }, single: { left: "before" } }[kind];
  at("right").hidden = easel.querySelector(".divider").hidden = easel.querySelector(".split").hidden = !shown.right;
  at("second-figure").hidden = !shown.second;
  at("compare").hidden = chosenView() === "removed";
  const entries = Object.entries(shown);
  const states = tiles.paint(image, entries.map(([where, layer]) => [CANVASES[where], lookAt(image, layer)]), view);
  for (const [where, canvas] of Object.entries(CANVASES)) {
    const k = entries.findIndex(([place]) => place === where);
    const tag = at(`${where}-tag`);
    tag.hidden = k < 0;
    if (k < 0) continue;
    const layer = entries[k][1];
    const state = image.error && layer !== "before" ? "failed" : states[k];
    const said = layer === "before" ? "" : { fast: SAY.preliminary, coarse: SAY.preliminary, partly: SAY.preliminary, waiting: SAY.computing, failed: SAY.failed }[state] || "";
    tag.textContent = names[layer] + (said && ` · ${said}`);
    canvas.dataset.state = state;
  }
  for (const box of easel.querySelectorAll(".stage")) {
    const tags = [...box.querySelectorAll(".tag:not([hidden])")].map((tag) => tag.textContent).join(SAY.and);
    const label = SAY.stage(image.name, tags);
    if (box.getAttribute("aria-label") !== label) box.setAttribute("aria-label", label);
  }
  drawSample();
  tellView();
}

// Outlines the rectangle from which the noise was sampled.
function drawSample() {
  const { rectangle } = current.settings.noise;
  at("sample").hidden = !rectangle || Boolean(stopSampling);
  if (!rectangle) return;
  const [x, y, width, height] = rectangle;
  const { scale } = view;
  const box = { left: (x - view.x) * scale, top: (y - view.y) * scale, width: width * scale, height: height * scale };
  for (const [side, value] of Object.entries(box)) at("sample").style[side] = `${value}px`;
}

// Tells the server what is visible, which it denoises first; at once, unless it was told a moment ago.
let told = "", telling = null, toldAt = 0;
function tellView() {
  if (telling) return;
  telling = setTimeout(async () => {
    telling = null;
    toldAt = performance.now();
    if (!current || !view) return;
    const image = current;
    const seen = {
      frame: image.frame, x: Math.max(0, view.x), y: Math.max(0, view.y), width: Math.min(view.width, image.width),
      height: Math.min(view.height, image.height), scale: view.scale * (window.devicePixelRatio || 1), revision: image.revision,
    };
    const words = image.id + JSON.stringify(seen);
    if (words === told) return;
    told = words;
    try {
      const { noise } = await request("PUT", `/api/images/${image.id}/view`, seen);
      if (seen.frame === image.frame) learn(image, noise);
    } catch { told = ""; }
  }, toldAt + 60 - performance.now());
}

for (const choice of easel.querySelectorAll("[name=view]")) choice.addEventListener("change", () => stage.draw());

// Settings. Quick changes become one request at a time; only the latest is sent.

function change(settings) {
  if (settings.noise) current.noise = null;
  Object.assign(current.settings, settings);
  current.changed = true;
  current.error = "";
  at("saved").textContent = "";
  sendSettings(current);
  drawPanel();
}

async function sendSettings(image) {
  if (image.sending) return;
  image.sending = true;
  while (image.changed) {
    image.changed = false;
    try {
      const { revision, noise } = await request("PUT", `/api/images/${image.id}/settings`, image.settings);
      renewed(image, revision);
      if (!image.changed) learn(image, noise);
    } catch (error) {
      showError(error);
    }
  }
  image.sending = false;
  if (image === current) {
    drawStatus();
    stage.draw();
    drawCommands();
  }
}

// Takes over what is known about the noise; what is not known yet will be told by an event.
function learn(image, noise) {
  if (noise) image.noise = noise;
  if (image === current) drawNoise();
}

// Notes that an image has a newer revision; returns whether `revision` is the newest.
function renewed(image, revision) {
  if (revision < image.revision) return false;
  if (revision > image.revision) {
    Object.assign(image, { revision, result: null, error: "", progress: null });
    if (image === current) drawStatus();
  }
  return true;
}

// The panel.

function drawPanel() {
  const image = current;
  const { settings } = image;
  at("name").textContent = image.name;
  const count = image.frames.length;
  at("facts").textContent = [
    `${image.width} × ${image.height}`, image.color ? SAY.color : image.channels.length > 1 ? SAY.channels(image.channels.length) : SAY.gray,
    ...(count > 1 ? [SAY.frames(count)] : []), image.dtype, image.file_type,
  ].filter(Boolean).join(" · ");
  at("notes").replaceChildren(...image.notes.map((note) => element("li", {}, note)));
  drawNoise();
  for (const button of at("methods").querySelectorAll("input")) button.checked = button.value === settings.method;
  at("method-words").textContent = (methods.find(({ name }) => name === settings.method) || {}).words || "";
  for (const { name, in_color } of adjustments) {
    at(name).value = settings[name];
    at(`${name}-value`).textContent = `× ${settings[name].toFixed(2)}`;
    at(`${name}-row`).hidden = in_color && !image.color;
  }
  at("reset").hidden = JSON.stringify({ ...settings, other: null }) === JSON.stringify(defaults);
  const others = methods.filter(({ name }) => name !== settings.method);
  at("other").replaceChildren(element("option", { value: "" }, SAY.original), ...others.map(({ name }) => element("option", { value: name }, name)));
  at("other").value = settings.other || "";
  drawChoices();
  drawRange();
  at("save").hidden = !image.can_save_beside;
  at("download").classList.toggle("main", !image.can_save_beside);
  drawStatus();
}

function drawNoise() {
  const { noise, settings } = current;
  const [kind] = Object.keys(settings.noise);
  at("noise-plain").textContent = noise ? asSentence(noise.plain) : "";
  at("noise-words").textContent = noise ? asSentence(noise.words) + (noise.sure === false ? SAY.uncertain : "") : SAY.estimating;
  drawMore();
  at("noise-kind").value = kind === "kind" ? settings.noise.kind : kind;
  at("level-row").hidden = kind !== "level";
  if (kind === "level" && document.activeElement !== at("level")) at("level").value = settings.noise.level;
  at("draw").hidden = kind !== "rectangle";
}

// One step is clearly visible; the slider ends at the third.
const STEP = 1.5;
const strongest = () => Number(at("strength").max);

function drawMore() {
  const { noise, settings } = current;
  const none = Boolean(noise) && noise.level === 0;
  const most = settings.strength >= strongest();
  at("more").disabled = none || most;
  at("more-words").textContent = none ? SAY.noNoise
    : most ? SAY.strongest : "";
}
at("more").addEventListener("click", () => {
  const next = Math.min(Math.round(20 * STEP * current.settings.strength) / 20, strongest());
  change({ strength: Math.max(next, Math.min(current.settings.strength + 0.05, strongest())) });
  if (at("more").disabled) at("strength").focus();  // a disabled button cannot keep the focus
});

function drawChoices() {
  const { channels, color, frames, frame, together } = current;
  at("stack").hidden = channels.length < 2 && frames.length < 2;
  at("channel-choice").hidden = channels.length < 2;
  at("channel").replaceChildren(
    ...(color ? [element("option", { value: "" }, SAY.all)] : []),
    ...channels.map((name, k) => element("option", { value: k }, name)));
  at("channel").value = current.channel ?? "";
  at("frames").hidden = frames.length < 2;
  at("frame").max = frames.length - 1;
  at("frame").value = frame;
  at("frame").setAttribute("aria-valuetext", frames[frame] || "");
  at("frame-name").textContent = frames[frame] || "";
  at("together").textContent = together ? SAY.together(together) : "";
}

const inFewDigits = (value, digits = 4) => String(Number(value.toPrecision(digits)));
// Seconds in words, in steps that become coarser: nobody wants to see them jump.
function timeLeft(seconds) {
  if (!(seconds >= 1)) return "";
  const inSteps = (value, step) => Math.max(step, Math.round(value / step) * step);
  if (seconds < 55) return SAY.secondsLeft(inSteps(seconds, seconds < 10 ? 1 : 5));
  const minutes = inSteps(seconds / 60, seconds < 600 ? 1 : 5);
  const hours = Math.floor(minutes / 60);
  return SAY.minutesLeft(hours, minutes % 60);
}
const asSentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

function drawRange() {
  at("range").hidden = !isDeep(current);
  if (!isDeep(current)) return;
  const { low, high, black, white } = current;
  const margin = high - low;
  const integers = current.dtype.startsWith("uint");
  const [least, most] = [Math.min(black, integers ? Math.max(0, low - margin) : low - margin), Math.max(white, high + margin)];
  for (const [name, value] of [["low", black], ["high", white]]) {
    Object.assign(at(name), { min: least, max: most });
    at(name).value = value;
    at(name).setAttribute("aria-valuetext", inFewDigits(value));
    if (document.activeElement !== at(`${name}-value`)) at(`${name}-value`).value = inFewDigits(value);
  }
  const share = (value) => 100 * (value - least) / (most - least || 1);
  const band = at("range").querySelector(".band");
  band.style.left = `${share(black)}%`;
  band.style.right = `${100 - share(white)}%`;
}

function drawStatus() {
  const image = current;
  const { progress, error } = image;
  const result = image.sending ? null : image.result;  // that of earlier settings
  const words = error || (progress ? progress.words || { visible: SAY.denoisingVisible, whole: SAY.denoisingWhole }[progress.stage]
    : result ? (result.seconds < 0.05 ? SAY.done : SAY.doneIn(result.seconds.toFixed(result.seconds < 10 ? 1 : 0))) : image.noise ? SAY.denoising : SAY.estimatingNoise);
  if (at("status").textContent !== asSentence(words)) at("status").textContent = asSentence(words);
  at("time-left").textContent = progress && !error ? timeLeft(progress.left) : "";
  at("status").classList.toggle("failed", Boolean(error));
  at("progress").hidden = !progress;
  if (progress) at("progress").value = progress.done;
  at("result").hidden = !result;
  if (result) {
    at("removed").textContent = result.removed || SAY.nothing;
    at("gain").parentElement.hidden = !result.gain;
    at("gain").textContent = result.gain || "";
  }
}

at("noise-kind").addEventListener("change", () => {
  const kind = at("noise-kind").value;
  if (kind === "rectangle") sample();
  else if (kind === "level") {
    const known = current.noise && current.noise.level;
    change({ noise: { level: Number((known || (current.white - current.black) / 20 || 1).toPrecision(3)) } });
    at("level").focus();
  } else change({ noise: { kind } });
});
at("level").addEventListener("input", () => {
  const level = at("level").valueAsNumber;
  if (level > 0) change({ noise: { level } });
});
at("draw").addEventListener("click", sample);

function sample() {
  if (stopSampling) stopSampling();
  const image = current;
  stopSampling = drawRectangle(at("sampler"), (corners) => {
    stopSampling = null;
    if (image !== current) return;
    at("noise-kind").focus();
    if (!corners) { drawPanel(); stage.draw(); return; }
    const [left, top, right, bottom] = corners.map((value) => value / view.scale);
    const clamp = (value, most) => Math.min(Math.max(Math.round(value), 0), most);
    const [x, y] = [clamp(view.x + left, image.width - 1), clamp(view.y + top, image.height - 1)];
    const [endX, endY] = [clamp(view.x + right, image.width), clamp(view.y + bottom, image.height)];
    if (endX - x < 8 || endY - y < 8) {
      showError(SAY.smallRectangle(endX - x, endY - y));
      drawPanel();
      return;
    }
    change({ noise: { rectangle: [x, y, endX - x, endY - y] } });
  });
  drawSample();
}

at("reset").addEventListener("click", () => {
  change({ ...defaults, other: current.settings.other });
  at("strength").focus();
});
at("methods").addEventListener("change", (event) => {
  const method = event.target.value;
  change({ method, other: current.settings.other === method ? null : current.settings.other });
});
at("other").addEventListener("change", () => change({ other: at("other").value || null }));
at("channel").addEventListener("change", () => {
  current.channel = at("channel").value === "" ? null : Number(at("channel").value);
  stage.draw();
});
at("frame").addEventListener("input", () => chooseFrame(at("frame").valueAsNumber));
function chooseFrame(frame) {
  if (frame < 0 || frame >= current.frames.length) return;
  current.frame = frame;
  if (!current.together) current.noise = null;
  drawChoices();
  stage.draw();
}

function setRange(black, white) {
  if (!(Number.isFinite(black) && Number.isFinite(white)) || black >= white) return;
  Object.assign(current, { black, white });
  drawRange();
  stage.draw();
}
for (const suffix of ["", "-value"]) {
  at(`low${suffix}`).addEventListener("input", () => setRange(at(`low${suffix}`).valueAsNumber, current.white));
  at(`high${suffix}`).addEventListener("input", () => setRange(current.black, at(`high${suffix}`).valueAsNumber));
}
for (const name of ["low", "high"]) for (const suffix of ["", "-value"]) at(name + suffix).addEventListener("change", drawRange);
at("auto").addEventListener("click", () => setRange(current.low, current.high));

// The shelf: open images, uploads, the folder.

function drawShelf() {
  at("shelf").hidden = !(folder || images.size || uploads.length);
  at("images").parentElement.hidden = !(images.size || uploads.length);
  const focused = at("images").contains(document.activeElement) && document.activeElement.dataset.key;
  at("images").replaceChildren(...[...images.values()].map(itemOf), ...uploads.map((sent) => element("li", { class: "sending" },
    element("span", {}, sent.name), element("progress", { max: 1, value: sent.share, "aria-label": SAY.uploadOf(sent.name) }))));
  const again = focused && [...at("images").querySelectorAll("button")].find((button) => button.dataset.key === focused);
  if (again) again.focus();
}

function itemOf(image) {
  const picture = element("img", { src: addressOf(image, { ...lookAt(image, "before"), frame: 0 }, topLevel(image), 0, 0), alt: "", width: 38, height: 38 });
  const open = element("button", { type: "button", class: "item", title: image.name }, picture, element("span", {}, image.name));
  open.dataset.key = `open ${image.id}`;
  if (image === current) open.setAttribute("aria-current", "true");
  open.addEventListener("click", () => show(image));
  const close = element("button", { type: "button", class: "close", "aria-label": SAY.close(image.name) }, "✕");
  close.dataset.key = `close ${image.id}`;
  close.addEventListener("click", () => tried(async () => {
    await request("DELETE", `/api/images/${image.id}`);
    forget(image.id);
  }));
  return element("li", {}, open, close);
}

const fileItems = new Map();
const thumbnails = makeThumbnails();
const MARKS = { waiting: "", running: "…", done: "✓", failed: "!", skipped: "–" };

function drawFolder() {
  at("folder").hidden = !folder;
  if (!folder) return;
  const { files, running } = folder;
  at("folder-name").textContent = folder.name;
  const count = (...states) => files.filter(({ state }) => states.includes(state)).length;
  const [rest, over] = [count("waiting", "failed"), count("done", "skipped")];
  const failed = count("failed");
  at("run").textContent = rest === failed ? SAY.tryAgain : over || failed ? SAY.denoiseRest(rest) : SAY.denoiseAll(rest);
  at("run").hidden = running || !rest;
  at("run").disabled = !current;
  at("stop").hidden = !running;
  at("folder-progress").hidden = !running;
  at("folder-progress").value = files.length ? (over + failed + (folder.done || 0)) / files.length : 0;
  at("folder-words").textContent = [
    over || failed || running ? SAY.doneOf(over, files.length) : SAY.files(files.length),
    ...(failed ? [SAY.countFailed(failed)] : []), ...(rest && !running && !current ? [SAY.openOne] : []),
  ].join(", ");
  const left = running ? timeLeft(folder.left) : "";
  at("folder-left").textContent = left && `, ${left}`;
  for (const file of files) {
    if (!fileItems.has(file.id)) {
      fileItems.set(file.id, fileItem(file));
      at("folder-files").append(fileItems.get(file.id));
    }
    drawFile(fileItems.get(file.id), file);
  }
}

function fileItem({ id, name }) {
  const picture = element("img", { alt: "", width: 38, height: 38 });
  thumbnails.add(picture, `/api/files/${id}/thumbnail`);
  const button = element("button", { type: "button", class: "item" }, picture, element("span", {}, name), element("span", { class: "mark" }));
  button.addEventListener("click", () => tried(async () => { opened(await request("POST", `/api/files/${id}/open`)); }));
  return element("li", {}, button);
}

function drawFile(item, { name, state, error }) {
  const [button] = item.children;
  if (current && current.can_save_beside && current.name === name) button.setAttribute("aria-current", "true");
  else button.removeAttribute("aria-current");
  if (item.dataset.state === state) return;
  item.dataset.state = state;
  button.title = error || name;
  button.setAttribute("aria-label", SAY.file(name, SAY.states[state], error));
  button.lastElementChild.textContent = MARKS[state] ?? "";
}

at("run").addEventListener("click", () => tried(async () => {
  await request("POST", "/api/folder/run", { settings: { ...current.settings, other: null }, image: current.id });
  at("stop").focus();
}));
at("stop").addEventListener("click", () => tried(() => request("POST", "/api/folder/stop")));

// Opening files.

// The image that an answer describes; if it is known, events may have told more of it meanwhile.
const imageOf = (described) => images.get(described.id) || adopt(described);

function opened(described) {
  const image = imageOf(described);
  if (image !== current) show(image);
}

async function openFiles(files) {
  let first = true;
  const waiting = [...files].map((file) => ({ file, name: file.name || SAY.pasted, share: 0 }));
  uploads.push(...waiting);
  drawShelf();
  for (const sent of waiting) {
    try {
      if (sent.file.size > largest) throw new Error(SAY.tooLarge(inBytes(sent.file.size), inBytes(largest)));
      const bar = () => at("images").querySelector(`[aria-label="${CSS.escape(SAY.uploadOf(sent.name))}"]`);
      const image = imageOf(await upload(sent.file, (share) => { sent.share = share; if (bar()) bar().value = share; }));
      if (first) show(image);
      first = false;
    } catch (error) {
      showError(`${sent.name}: ${error.message}`);
    }
    uploads.splice(uploads.indexOf(sent), 1);
    drawShelf();
  }
}

const inBytes = (bytes) => bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;

for (const id of ["open", "choose"]) at(id).addEventListener("click", () => at("files").click());
at("files").addEventListener("change", () => {
  openFiles(at("files").files);
  at("files").value = "";
});
document.addEventListener("paste", (event) => {
  const { files } = event.clipboardData;
  if (!files.length) return;
  event.preventDefault();
  openFiles(files);
});
let dragged = 0;  // elements below the pointer that were entered
const holdsFiles = (event) => [...event.dataTransfer.types].includes("Files");
document.addEventListener("dragenter", (event) => { if (holdsFiles(event)) { dragged += 1; document.body.classList.add("dragging"); } });
document.addEventListener("dragleave", (event) => { if (holdsFiles(event) && (dragged -= 1) <= 0) endDrag(); });
document.addEventListener("dragover", (event) => { if (holdsFiles(event)) event.preventDefault(); });
function endDrag() {
  dragged = 0;
  document.body.classList.remove("dragging");
}
document.addEventListener("drop", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  endDrag();
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
  const files = [...event.dataTransfer.files].filter((file, k) => !(entries[k] && entries[k].isDirectory));
  if (files.length < event.dataTransfer.files.length) showError(SAY.noFolders);
  if (files.length) openFiles(files);
});

// Saving.

async function save(overwrite) {
  const image = current;
  try {
    at("saved").textContent = SAY.saving;
    const { name } = await request("POST", `/api/images/${image.id}/save`, { where: "beside", ...(overwrite ? { overwrite } : {}) });
    at("saved").textContent = SAY.saved(name);
  } catch (error) {
    at("saved").textContent = "";
    if (error.status !== 409 || overwrite) { showError(error); return; }
    at("replace-words").textContent = SAY.replace(error.message.split(";")[0]);
    at("replace").returnValue = "no";
    at("replace").showModal();
    at("replace").addEventListener("close", () => { if (at("replace").returnValue === "yes") save(true); }, { once: true });
  }
}
async function downloadResult() {
  try {
    at("saved").textContent = SAY.preparing;
    at("saved").textContent = SAY.downloaded(await download(`/api/images/${current.id}/save`, { where: "download" }));
  } catch (error) {
    at("saved").textContent = "";
    showError(error);
  }
}
at("save").addEventListener("click", () => save(false));
at("download").addEventListener("click", downloadResult);

// Shows the command and the Python lines that do the same, if they are unfolded. Answers may overtake each other: only
// the one to the latest question counts.
let asked = 0;
async function drawCommands() {
  if (!current || !at("commands").open) return;
  const question = asked += 1;
  const commands = await tried(() => request("GET", `/api/images/${current.id}/commands`));
  if (!commands || question !== asked) return;
  for (const name of ["shell", "python"]) at(name).textContent = commands[name];
  at("python").parentElement.hidden = !commands.python;  // only the command line reads videos and raw files
}
at("commands").addEventListener("toggle", drawCommands);
for (const name of ["shell", "python"]) {
  const button = at(`copy-${name}`);
  const label = button.textContent;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(at(name).textContent);
      button.textContent = SAY.copied;
    } catch {  // not allowed: let the person copy what is selected
      getSelection().selectAllChildren(at(name));
      button.textContent = SAY.selected;
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

// Keys.

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "s" && current) {
    event.preventDefault();
    if (current.can_save_beside) save(false); else downloadResult();
    return;
  }
  const typing = event.target.matches("select, input:not([type=radio]):not([type=range]), textarea") || at("replace").open || stopSampling;
  if (!current || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = [...images.values()];
  const choices = [...easel.querySelectorAll("[name=view]")];
  if (event.key === "b" && !event.repeat) { peeking = true; stage.draw(); }
  else if (event.key === "v") {
    choices[(choices.findIndex((choice) => choice.checked) + 1) % choices.length].checked = true;
    stage.draw();
  }
  else if (event.key === "," || event.key === ".") chooseFrame(current.frame + (event.key === "." ? 1 : -1));
  else if (event.key === "[" || event.key === "]") show(all[(all.indexOf(current) + (event.key === "]" ? 1 : all.length - 1)) % all.length]);
});
document.addEventListener("keyup", (event) => { if (event.key === "b" && peeking) endPeek(); });
window.addEventListener("blur", () => { if (peeking) endPeek(); });
function endPeek() {
  peeking = false;
  stage.draw();
}

// What the server says.

const RECEIVERS = {
  noise(image, event) { if ((event.frame ?? image.frame) === image.frame) image.noise = event.noise; },
  progress(image, event) {  // once the result is there, the work is on its gain, which is not waited for
    if (renewed(image, event.revision) && !image.result) image.progress = event;
  },
  tiles(image, event) { if (renewed(image, event.revision)) tiles.renew(image.id, event.revision, event.frame ?? null, event.rectangle); },
  done(image, event) {
    if (!renewed(image, event.revision)) return;
    Object.assign(image, { progress: null, result: event, error: "" });
    tiles.renew(image.id, event.revision, event.frame ?? null, [0, 0, image.width, image.height]);
  },
  gain(image, event) { if (renewed(image, event.revision) && image.result) image.result.gain = event.gain; },
  failed(image, event) {
    if (!renewed(image, event.revision)) return;
    Object.assign(image, { progress: null, error: event.error });
    showError(`${image.name}: ${event.error}`);
    if (image === current) stage.draw();
  },
  dropped(image, event) {
    forget(image.id);
    showError(event.words);
  },
};

// Says that denoising is yet to be compiled, which happens at the first start.
function drawCompiling(compiling) {
  const [words] = at("compiling").getElementsByTagName("p");
  words.textContent = compiling ? SAY.compiling : "";
  at("compiling").hidden = !compiling;
}

function receive(event) {
  if (event.type === "state") {
    synchronise(event);
    return;
  }
  if (event.type === "compiling") {
    drawCompiling(event.compiling);
    return;
  }
  if (event.type === "folder") {
    if (event.folder) folder = event.folder;
    if (!folder) return;
    if (event.file) Object.assign(folder.files.find(({ id }) => id === event.file.id) || {}, event.file);
    if (event.running !== undefined) folder.running = event.running;
    folder.done = event.done;
    if (event.left) folder.left = event.left;
    if (!folder.running) folder.left = null;
    drawFolder();
    return;
  }
  const image = images.get(event.image);
  if (!image || !RECEIVERS[event.type]) return;
  RECEIVERS[event.type](image, event);
  if (image === current) {
    drawNoise();
    drawStatus();
  }
}

function drawMethods() {
  at("methods").replaceChildren(...methods.map(({ name, words }) => element("label", { title: words },
    element("input", { type: "radio", name: "method", value: name }), element("span", {}, name))));
}

function drawAdjustments() {
  if (at("adjustments").children.length) return;  // a person may be moving one of them
  at("adjustments").replaceChildren(...adjustments.map(({ name, words, min, max, step }) => element("div", { class: "amount", id: `${name}-row`, title: words },
    element("label", { htmlFor: name }, name[0].toUpperCase() + name.slice(1)), element("output", { id: `${name}-value`, htmlFor: name }),
    element("input", { id: name, type: "range", min, max, step, oninput: ({ target }) => change({ [name]: target.valueAsNumber }) }))));
}

// Takes over everything, at the start and whenever the connection is there again.
function synchronise(state) {
  at("gone").hidden = true;
  document.body.classList.remove("lost");
  ({ methods, adjustments, defaults, folder } = state);
  largest = state.largest_upload || Infinity;
  drawCompiling(state.compiling);
  drawMethods();
  drawAdjustments();
  const alive = new Set(state.images.map(({ id }) => id));
  for (const described of state.images) adopt(described);
  for (const id of [...images.keys()]) if (!alive.has(id)) forget(id);
  told = "";
  drawFolder();
  show(current || [...images.values()].at(-1) || null);
}

async function lost() {
  document.body.classList.add("lost");
  let words = SAY.stopped;
  try {
    await request("GET", "/api/state");
    words = SAY.lost;
  } catch (error) {
    if (error.status === 403) words = SAY.restarted;
  }
  if (!document.body.classList.contains("lost")) return;  // it is back
  const [said] = at("gone").getElementsByTagName("p");
  if (said.textContent !== words) said.textContent = words;
  at("gone").hidden = false;
}

const connect = listen(receive, lost);
at("gone").querySelector("button").addEventListener("click", connect);
