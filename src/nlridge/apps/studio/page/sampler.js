// Lets a person draw a rectangle upon the stage, by pointer or by keys. `done` receives its corners in pixels of the screen,
// [left, top, right, bottom], or null if there is none.
export function drawRectangle(sampler, done) {
  const box = sampler.querySelector(".rectangle");
  const stop = new AbortController();
  const listen = (name, act) => sampler.addEventListener(name, act, { signal: stop.signal });
  const clamp = (value, high) => Math.min(Math.max(value, 0), high);
  let corners = null, start = null;

  function show() {
    box.hidden = !corners;
    if (!corners) return;
    const [left, top, right, bottom] = corners;
    for (const [side, value] of Object.entries({ left, top, width: right - left, height: bottom - top })) {
      box.style[side] = `${value}px`;
    }
  }
  function end(result) {
    stop.abort();
    sampler.hidden = true;
    done(result);
  }
  function at(event) {
    const outline = sampler.getBoundingClientRect();
    return [clamp(event.clientX - outline.left, outline.width), clamp(event.clientY - outline.top, outline.height)];
  }

  listen("pointerdown", (event) => {
    start = at(event);
    sampler.setPointerCapture(event.pointerId);
  });
  listen("pointermove", (event) => {
    if (!start) return;
    const now = at(event);
    const ordered = [0, 1].map((k) => [start[k], now[k]].sort((a, b) => a - b));
    corners = [ordered[0][0], ordered[1][0], ordered[0][1], ordered[1][1]];
    show();
  });
  listen("pointercancel", () => { start = null; });
  listen("pointerup", () => {
    start = null;
    if (corners && corners[2] - corners[0] > 3 && corners[3] - corners[1] > 3) end(corners);
  });
  listen("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") end(null);
    else if (event.key === "Enter") end(corners);
    else if (move) {
      const [width, height] = [sampler.clientWidth, sampler.clientHeight];
      corners ??= [0.4 * width, 0.4 * height, 0.6 * width, 0.6 * height];
      const [left, top, right, bottom] = corners;
      const [byX, byY] = [move[0] * 8, move[1] * 8];
      corners = event.shiftKey
        ? [left, top, clamp(Math.max(right + byX, left + 8), width), clamp(Math.max(bottom + byY, top + 8), height)]
        : left + byX < 0 || right + byX > width || top + byY < 0 || bottom + byY > height
          ? corners
          : [left + byX, top + byY, right + byX, bottom + byY];
      show();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  show();
  sampler.hidden = false;
  sampler.focus();
  return () => end(null);
}
