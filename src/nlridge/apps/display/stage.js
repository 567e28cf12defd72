"use strict";

// Mounts the stages of a figure: "before" and "after" under a slider, and other images of the same scene beside them, all
// at the same zoom. `figure` contains elements with these classes: .stage (one or more, with layers of class .layer;
// .after is the one that the slider uncovers), .split (the slider), .divider, .zoom (buttons with data-zoom), and an
// output element for the zoom. `width` and `height` are the size of all images. Returns functions to change the view.
//
// A layer is an <img> of the whole image, or a <canvas> as large as its stage, which `paint` draws upon: it receives the
// view, {scale, x, y, width, height}: screen pixels per image pixel, and the part of the image that the stages show.
//
// Stages are as wide as their column and scroll with the page. With `fills`, they fill a box that the page gives them, with
// the image in the middle. With `wheel`, the wheel always zooms; otherwise only when the image is zoomed in already.
function mountStage(figure, width, height, { fills = false, wheel = false, paint = () => {} } = {}) {
  const stages = [...figure.querySelectorAll(".stage")];
  const split = figure.querySelector(".split");
  const after = figure.querySelector(".after");
  const divider = figure.querySelector(".divider");
  const zoomOutput = figure.querySelector("output");
  const images = [...figure.querySelectorAll("img.layer")];
  // The view: `zoom` screen pixels per image pixel (0 means "fit"), with the point (x, y) of the image in the top left corner.
  let zoom = 0, x = 0, y = 0;

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  // As wide as the column, but not taller than three quarters of the window; or as large as fits the box.
  const fit = () => fills
    ? Math.min(stages[0].clientWidth / width, stages[0].clientHeight / height) || 1
    : Math.min(stages[0].parentElement.clientWidth / width, 0.75 * window.innerHeight / height);
  const scaleNow = () => zoom || fit();
  // Keeps an image within its stage: `shown` of its `length` pixels fit.
  const kept = (start, length, shown) => fills && shown > length ? (length - shown) / 2 : clamp(start, 0, Math.max(0, length - shown));

  function setSize(least) {
    // Even for thin images, the stage is large enough to see and touch.
    const wide = Math.max(width * least, Math.min(stages[0].parentElement.clientWidth, 200));
    const high = Math.max(height * least, 120);
    split.style.width = wide + "px";
    for (const stage of stages) {
      stage.style.width = wide + "px";
      stage.style.height = high + "px";
    }
  }

  function draw() {
    const least = fit();
    const scale = scaleNow();
    if (!fills) setSize(least);
    for (const stage of stages) {
      stage.classList.toggle("zoomed", scale > least * 1.001);
      stage.classList.toggle("pixels", scale >= 2);
    }
    const [shownWidth, shownHeight] = [stages[0].clientWidth / scale, stages[0].clientHeight / scale];
    x = kept(x, width, shownWidth);
    y = kept(y, height, shownHeight);
    for (const image of images) image.style.transform = `scale(${scale}) translate(${-x}px, ${-y}px)`;
    // Show the part of "after" to the right of the divider.
    const share = split.value / 100;
    const left = images.includes(after) ? clamp(x + share * shownWidth, 0, width) : share * stages[0].clientWidth;
    after.style.clipPath = `inset(0 0 0 ${left}px)`;
    divider.style.left = 100 * share + "%";
    zoomOutput.textContent = Math.round(100 * scale) + " %";
    paint({ scale, x, y, width: shownWidth, height: shownHeight });
  }

  function zoomTo(value, atX = stages[0].clientWidth / 2, atY = stages[0].clientHeight / 2) {
    const old = scaleNow();
    zoom = clamp(value, Math.min(fit(), 1), 32);
    x += atX / old - atX / zoom;
    y += atY / old - atY / zoom;
    draw();
  }
  const zoomBy = (factor, atX, atY) => zoomTo(scaleNow() * factor, atX, atY);
  const zoomToFit = () => { zoom = 0; draw(); };

  split.addEventListener("input", draw);
  figure.querySelector(".zoom").addEventListener("click", (event) => {
    const what = event.target.dataset.zoom;
    if (what === "in") zoomBy(1.5);
    if (what === "out") zoomBy(1 / 1.5);
    if (what === "one") zoomTo(1);
    if (what === "fit") zoomToFit();
  });
  for (const stage of stages) {
    const fingers = new Map();  // where each pointer is that touches the stage
    let drag = null;
    const at = ({ clientX, clientY }) => {
      const box = stage.getBoundingClientRect();
      return [clientX - box.left, clientY - box.top];
    };
    function grab() {
      const [[fromX, fromY]] = fingers.values();
      const slides = stage.contains(divider) && !divider.hidden && fingers.size === 1
        && (Math.abs(fromX - split.value / 100 * stage.clientWidth) < 24 || !stage.classList.contains("zoomed"));
      drag = { slides, fromX, fromY, x, y };
    }
    function pinch(event) {
      const [still] = [...fingers].find(([id]) => id !== event.pointerId);
      const [a, b, c] = [fingers.get(still), fingers.get(event.pointerId), at(event)];
      const distance = ([s, t]) => Math.max(Math.hypot(s - a[0], t - a[1]), 1);
      zoomBy(distance(c) / distance(b), ...a);
    }
    stage.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, at(event));
      stage.setPointerCapture(event.pointerId);
      grab();
      if (drag.slides) move(event);
    });
    const move = (event) => {
      if (!fingers.has(event.pointerId)) return;
      if (fingers.size > 1) pinch(event);
      const [toX, toY] = at(event);
      fingers.set(event.pointerId, [toX, toY]);
      if (fingers.size > 1) return;
      if (drag.slides) {
        split.value = 100 * clamp(toX / stage.clientWidth, 0, 1);
      } else {
        x = drag.x - (toX - drag.fromX) / scaleNow();
        y = drag.y - (toY - drag.fromY) / scaleNow();
      }
      draw();
    };
    stage.addEventListener("pointermove", move);
    for (const end of ["pointerup", "pointercancel"]) {
      stage.addEventListener(end, (event) => {
        fingers.delete(event.pointerId);
        if (fingers.size) grab();  // one finger of two goes on
      });
    }
    stage.addEventListener("wheel", (event) => {
      if (!wheel && !event.ctrlKey && !event.metaKey && !stage.classList.contains("zoomed")) return;  // let the page scroll
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY / 300), ...at(event));
    }, { passive: false });
    stage.addEventListener("dblclick", (event) => {
      if (stage.classList.contains("zoomed")) zoomToFit();
      else zoomTo(Math.max(2, 2 * fit()), ...at(event));
    });
    stage.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = 40 / scaleNow();
      if (event.key === "+" || event.key === "=") zoomBy(1.5);
      else if (event.key === "-") zoomBy(1 / 1.5);
      else if (event.key === "0") zoomToFit();
      else if (event.key === "1") zoomTo(1);
      else if (event.key === "ArrowLeft") { x -= step; draw(); }
      else if (event.key === "ArrowRight") { x += step; draw(); }
      else if (event.key === "ArrowUp" && (zoom || fills)) { y -= step; draw(); }
      else if (event.key === "ArrowDown" && (zoom || fills)) { y += step; draw(); }
      else return;
      event.preventDefault();
    });
  }
  if (fills) new ResizeObserver(draw).observe(stages[0]);
  else window.addEventListener("resize", draw);
  draw();
  return {
    draw, zoomTo, zoomToFit,
    // Another image, of another size.
    replace(newWidth, newHeight) {
      [width, height, zoom, x, y] = [newWidth, newHeight, 0, 0, 0];
      draw();
    },
  };
}
