// Tiles of the image: 256 x 256 pixels each, of the image reduced by 2^level. Only those that are visible are requested, a
// few at a time. What a canvas shows is never taken away before there is something newer to show in its place.

const SIDE = 256;
const MOST = 500;  // tiles in memory, of 256 kB each
const AT_ONCE = 4;  // browsers allow six connections; one is for events

// The coarsest level: the image is a single tile.
export const topLevel = ({ width, height }) => Math.max(0, Math.ceil(Math.log2(Math.max(width, height) / SIDE)));

// The address of a tile. `look` says what is shown: {layer, revision, frame, channel, low, high}.
export function addressOf(image, look, level, column, row) {
  const query = new URLSearchParams();
  for (const name of ["frame", "channel", "low", "high"]) if (look[name] !== null) query.set(name, look[name]);
  return `/api/images/${image.id}/tile/${look.layer}/${look.revision}/${level}/${column}/${row}?${query}`;
}

// Returns functions that paint layers of an image on canvases. `repaint` is called when a tile has arrived.
export function makeTiles(repaint) {
  const slots = new Map();  // by place; the least recently used first
  const wanted = new Map();
  let loading = 0;

  // The slot of a place on a layer keeps the newest tile that has arrived for it.
  function slotAt(image, look, level, column, row) {
    const place = [image.id, look.layer, look.frame, look.channel, level, column, row].join("|");
    let slot = slots.get(place);
    if (slot) slots.delete(place);
    else slot = { bitmap: null, stamp: "", state: "", version: 0, loaded: -1, missing: "", loading: null,
      image: image.id, layer: look.layer, frame: look.frame, level, column, row };
    slots.set(place, slot);
    return slot;
  }
  const stampOf = (look) => `${look.revision}|${look.low}|${look.high}`;
  const isNewest = (slot, stamp) => slot.stamp === stamp && slot.loaded === slot.version;

  function want(image, look, level, column, row, urgency) {
    const slot = slotAt(image, look, level, column, row);
    const stamp = stampOf(look);
    if (!isNewest(slot, stamp) && slot.missing !== `${stamp}|${slot.version}`) {
      wanted.set(slot, { stamp, urgency, address: addressOf(image, look, level, column, row) });
    }
    return slot;
  }

  async function load(slot, { stamp, address }) {
    const version = slot.version;
    const abort = new AbortController();
    slot.loading = { stamp, version, abort };
    loading += 1;
    try {
      const response = await fetch(address, { signal: abort.signal });
      if (response.ok && response.status !== 204) {
        const bitmap = await createImageBitmap(await response.blob(), { colorSpaceConversion: "none" });
        if (slot.bitmap) slot.bitmap.close();
        Object.assign(slot, { bitmap, stamp, loaded: version, state: response.headers.get("X-State") || "exact" });
        repaint();
      } else slot.missing = `${stamp}|${version}`;  // an event will say when it is there
    } catch { /* no longer wanted, or no server: the next event asks again */
      if (!abort.signal.aborted) slot.missing = `${stamp}|${version}`;
    }
    slot.loading = null;
    loading -= 1;
    loadNext();
  }

  function loadNext() {
    const next = [...wanted].filter(([slot]) => !slot.loading).sort(([, a], [, b]) => a.urgency - b.urgency);
    for (const [slot, tile] of next.slice(0, Math.max(0, AT_ONCE - loading))) {
      wanted.delete(slot);
      load(slot, tile);
    }
  }

  // Forgets the oldest tiles, and stops loading what is no longer wanted.
  function tidy(used) {
    for (const [place, slot] of slots) {
      const { loading: request } = slot;
      if (request && !used.has(slot)) request.abort.abort();
      else if (request && wanted.has(slot)) {  // what is older is shown as well, until the newer is there
        if (request.stamp === wanted.get(slot).stamp && request.version === slot.version) wanted.delete(slot);
      }
      if (slots.size > MOST && !used.has(slot)) {
        if (slot.bitmap) slot.bitmap.close();
        slots.delete(place);
      }
    }
  }

  // What can be shown at a place: its tile, or part of a coarser one, or else part of the image before denoising.
  function findTile(image, look, level, column, row) {
    const layers = look.layer === "before" ? [look] : [look, { ...look, layer: "before" }];
    for (const layer of look.layer === "removed" ? [look] : layers) {
      for (let up = 0; level + up <= topLevel(image); up += 1) {
        const place = [image.id, layer.layer, look.frame, look.channel, level + up, column >> up, row >> up].join("|");
        const slot = slots.get(place);
        if (slot && slot.bitmap) return slot;
      }
    }
    return null;
  }

  function paint(canvas, image, look, view, used) {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (!wide || !high) return "exact";
    const scale = view.scale * ratio;
    const top = topLevel(image);
    const level = Math.min(top, Math.max(0, Math.floor(Math.log2(1 / scale) + 1e-6)));
    const size = SIDE * 2 ** level;
    const span = (start, length, whole) => [
      Math.max(0, Math.floor(start / size)), Math.min(Math.ceil(whole / size), Math.ceil((start + length) / size)) - 1];
    const [firstColumn, lastColumn] = span(view.x, view.width, image.width);
    const [firstRow, lastRow] = span(view.y, view.height, image.height);
    const pieces = [];
    const states = new Set();
    used.add(want(image, look, top, 0, 0, -1));
    for (let row = firstRow; row <= lastRow; row += 1) {
      for (let column = firstColumn; column <= lastColumn; column += 1) {
        const distance = Math.hypot(
          (column + 0.5) * size - view.x - view.width / 2, (row + 0.5) * size - view.y - view.height / 2);
        const slot = want(image, look, level, column, row, distance);
        used.add(slot);
        states.add(isNewest(slot, stampOf(look)) ? slot.state : "waiting");
        const found = slot.bitmap ? slot : findTile(image, look, level, column, row);
        if (found) pieces.push({ found, column, row });
      }
    }
    const same = canvas.dataset.image === image.id && canvas.width === wide && canvas.height === high;
    if (!pieces.length && same) return "waiting";  // rather the frame before than none at all
    canvas.dataset.image = image.id;
    if (!same) Object.assign(canvas, { width: wide, height: high });
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, wide, high);
    context.imageSmoothingEnabled = scale < 2;
    context.imageSmoothingQuality = "high";
    for (const { found, column, row } of pieces) {
      const [left, upper] = [column * size, row * size];
      const [right, lower] = [Math.min(left + size, image.width), Math.min(upper + size, image.height)];
      const reduced = 2 ** found.level;
      const [toX, toY, endX, endY] = [
        (left - view.x) * scale, (upper - view.y) * scale, (right - view.x) * scale, (lower - view.y) * scale,
      ].map(Math.round);  // on whole pixels, so that there are no seams
      context.drawImage(
        found.bitmap, left / reduced - found.column * SIDE, upper / reduced - found.row * SIDE,
        (right - left) / reduced, (lower - upper) / reduced, toX, toY, endX - toX, endY - toY,
      );
    }
    if (states.has("waiting")) return states.size > 1 ? "partly" : "waiting";
    return ["coarse", "fast"].find((state) => states.has(state)) || "exact";
  }

  return {
    // Paints all canvases, `shown` being pairs of a canvas and a look, and returns the state of each: "exact" if all its
    // pixels are those that will be saved, "fast" if some are preliminary, "coarse" if some are also less sharp than the
    // screen, "partly" or "waiting" if some or all are to come.
    paint(image, shown, view) {
      wanted.clear();
      const used = new Set();
      const states = shown.map(([canvas, look]) => paint(canvas, image, look, view, used));
      tidy(used);
      loadNext();
      return states;
    },
    // Asks again for the tiles that overlap a rectangle of an image, [x, y, width, height], except for exact ones.
    renew(id, revision, frame, [x, y, width, height]) {
      for (const slot of slots.values()) {
        const size = SIDE * 2 ** slot.level;
        const [left, upper] = [slot.column * size, slot.row * size];
        const overlaps = left < x + width && left + size > x && upper < y + height && upper + size > y;
        const exact = slot.state === "exact" && slot.stamp.startsWith(`${revision}|`);
        if (slot.image === id && slot.layer !== "before" && !exact && overlaps && (frame === null || slot.frame === frame)) {
          slot.version += 1;
        }
      }
      repaint();
    },
    // Forgets all tiles of an image.
    forget(id) {
      for (const [place, slot] of slots) {
        if (slot.image !== id) continue;
        if (slot.loading) slot.loading.abort.abort();
        if (slot.bitmap) slot.bitmap.close();
        slots.delete(place);
      }
    },
  };
}
