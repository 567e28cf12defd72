// Each figure of the report shows one view of its file: a frame and a channel, if there are several to choose from.
for (const figure of document.querySelectorAll(".figure")) {
  const layers = [...figure.querySelectorAll(".layer")];
  const captions = [...figure.querySelectorAll("figcaption")];
  const [frame, channel] = [figure.querySelector(".frame"), figure.querySelector(".channel")];
  const shown = {
    images: layers.map((layer) => layer.src),
    captions: captions.map((caption) => caption.textContent),
  };
  const more = figure.querySelector(".more");
  const views = [shown, ...(more ? JSON.parse(more.textContent) : [])];  // all channels of the first frame, then of the next

  mountStage(figure, ...["width", "height"].map((side) => Number(layers[0].getAttribute(side))));

  function show() {
    const channels = channel ? channel.length : 1;
    const view = views[(frame ? frame.selectedIndex : 0) * channels + (channel ? channel.selectedIndex : 0)];
    layers.forEach((layer, k) => { layer.src = view.images[k]; });
    captions.forEach((caption, k) => { caption.textContent = view.captions[k]; });
  }
  for (const choice of [frame, channel]) if (choice) choice.addEventListener("change", show);
  show();  // when a page is reloaded, the browser keeps the choices
}

const count = document.querySelectorAll(".figure").length;
const images = count === 1 ? "1 image" : `${count} images`;
document.title = `nlridge: ${images}`;
document.querySelector(".count").textContent = `${images}, `;
