"use strict";

// Mounts the stages of a figure: "before" and "after" under a slider, and other images of the same scene beside them, all
// at the same zoom. `figure` contains elements with these classes: .stage (one or more, with images of class .layer;
// .after is the one that the slider uncovers), .split (the slider), .divider, .zoom (buttons with data-zoom), and an
// output element for the zoom. `width` and `height` are the size of all images.
function mountStage(figure, width, height) {
  const stages = [...figure.querySelectorAll(".stage")];
  const split = figure.querySelector(".split");
  const after = figure.querySelector(".after");
  const divider = figure.querySelector(".divider");
  const zoomOutput = figure.querySelector("output");
  // The view: `zoom` screen pixels per image pixel (0 means "fit"), with the point (x, y) of the image in the top left corner.
  let zoom = 0, x = 0, y = 0;

  // As wide as the column, but not taller than three quarters of the window.
  const fit = () => Math.min(stages[0].parentElement.clientWidth / width, 0.75 * window.innerHeight / height);
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  const scaleNow = () => zoom || fit();

  function draw() {
    const least = fit();
    const scale = scaleNow();
    const fits = scale <= least * 1.001;
    // Even for thin images, the stage is large enough to see and touch.
    const wide = Math.max(width * least, Math.min(stages[0].parentElement.clientWidth, 200));
    const high = Math.max(height * least, 120);
    split.style.width = wide + "px";
    for (const stage of stages) {
      stage.style.width = wide + "px";
      stage.style.height = high + "px";
      stage.classList.toggle("zoomed", !fits);
      stage.classList.toggle("pixels", scale >= 2);
    }
    x = clamp(x, 0, Math.max(0, width - stages[0].clientWidth / scale));
    y = clamp(y, 0, Math.max(0, height - stages[0].clientHeight / scale));
    for (const layer of figure.querySelectorAll(".layer")) {
      layer.style.transform = `scale(${scale}) translate(${-x}px, ${-y}px)`;
    }
    // Show the part of "after" to the right of the divider.
    const share = split.value / 100;
    const left = x + share * stages[0].clientWidth / scale;
    after.style.clipPath = `inset(0 0 0 ${clamp(left, 0, width)}px)`;
    divider.style.left = 100 * share + "%";
    zoomOutput.textContent = Math.round(100 * scale) + " %";
  }

  function zoomTo(value, atX = stages[0].clientWidth / 2, atY = stages[0].clientHeight / 2) {
    const old = scaleNow();
    zoom = clamp(value, Math.min(fit(), 1), 32);
    x += atX / old - atX / zoom;
    y += atY / old - atY / zoom;
    draw();
  }
  const zoomBy = (factor, atX, atY) => zoomTo(scaleNow() * factor, atX, atY);

  split.addEventListener("input", draw);
  figure.querySelector(".zoom").addEventListener("click", (event) => {
    const what = event.target.dataset.zoom;
    if (what === "in") zoomBy(1.5);
    if (what === "out") zoomBy(1 / 1.5);
    if (what === "one") zoomTo(1);
    if (what === "fit") { zoom = 0; draw(); }
  });
  for (const stage of stages) {
    let drag = null;
    const isSplit = stage.contains(divider);
    stage.addEventListener("pointerdown", (event) => {
      const box = stage.getBoundingClientRect();
      const near = Math.abs(event.clientX - box.left - split.value / 100 * box.width) < 24;
      const slides = isSplit && (near || !stage.classList.contains("zoomed"));
      drag = { slides, fromX: event.clientX, fromY: event.clientY, x, y };
      stage.setPointerCapture(event.pointerId);
      if (slides) move(event);
    });
    const move = (event) => {
      if (!drag) return;
      const box = stage.getBoundingClientRect();
      if (drag.slides) {
        split.value = 100 * clamp((event.clientX - box.left) / box.width, 0, 1);
      } else {
        x = drag.x - (event.clientX - drag.fromX) / scaleNow();
        y = drag.y - (event.clientY - drag.fromY) / scaleNow();
      }
      draw();
    };
    stage.addEventListener("pointermove", move);
    for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, () => { drag = null; });
    stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !stage.classList.contains("zoomed")) return;  // let the page scroll
      event.preventDefault();
      const box = stage.getBoundingClientRect();
      zoomBy(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    stage.addEventListener("dblclick", (event) => {
      const box = stage.getBoundingClientRect();
      if (stage.classList.contains("zoomed")) { zoom = 0; draw(); }
      else zoomTo(Math.max(2, 2 * fit()), event.clientX - box.left, event.clientY - box.top);
    });
    stage.addEventListener("keydown", (event) => {
      const step = 40 / scaleNow();
      if (event.key === "+" || event.key === "=") zoomBy(1.5);
      else if (event.key === "-") zoomBy(1 / 1.5);
      else if (event.key === "0") { zoom = 0; draw(); }
      else if (event.key === "ArrowLeft") { x -= step; draw(); }
      else if (event.key === "ArrowRight") { x += step; draw(); }
      else if (event.key === "ArrowUp" && zoom) { y -= step; draw(); }
      else if (event.key === "ArrowDown" && zoom) { y += step; draw(); }
      else return;
      event.preventDefault();
    });
  }
  window.addEventListener("resize", draw);
  draw();
}
