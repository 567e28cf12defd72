// Each figure of the report shows one view of its file: a frame and a channel, if there are several to choose from. Frames
// are chosen from a menu; those of a clip from a filmstrip.
for (const figure of document.querySelectorAll(".figure")) {
  const layers = [...figure.querySelectorAll(".layer")];
  const captions = [...figure.querySelectorAll("figcaption")];
  const [frame, channel, strip] = [".frame", ".channel", ".strip"].map((name) => figure.querySelector(name));
  const shown = {
    images: layers.map((layer) => layer.src),
    captions: captions.map((caption) => caption.textContent),
  };
  const more = figure.querySelector(".more");
  const views = [shown, ...(more ? JSON.parse(more.textContent) : [])];  // all channels of the first frame, then of the next

  mountStage(figure, ...["width", "height"].map((side) => Number(layers[0].getAttribute(side))));

  function show() {
    const channels = channel ? channel.length : 1;
    const chosen = strip ? [...strip.elements].findIndex((button) => button.checked) : frame ? frame.selectedIndex : 0;
    const view = views[chosen * channels + (channel ? channel.selectedIndex : 0)];
    layers.forEach((layer, k) => { layer.src = view.images[k]; });
    captions.forEach((caption, k) => { caption.textContent = view.captions[k]; });
  }
  for (const choice of [frame, channel, strip]) if (choice) choice.addEventListener("change", show);
  show();  // when a page is reloaded, the browser keeps the choices
}

const clips = document.querySelectorAll(".strip").length;
const counts = { image: document.querySelectorAll(".figure").length - clips, clip: clips };
const shown = Object.entries(counts).filter(([, count]) => count > 0)
  .map(([name, count]) => `${count} ${name}${count === 1 ? "" : "s"}`).join(", ");
document.title = `nlridge: ${shown}`;
document.querySelector(".count").textContent = `${shown}, `;
