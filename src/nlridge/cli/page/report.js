// Each figure of the report has a stage, and shows one view of its file: a frame and a channel, if there are several.
for (const figure of document.querySelectorAll(".figure")) {
  const layers = [...figure.querySelectorAll(".layer")];
  const captions = [...figure.querySelectorAll("figcaption")];
  const [frame, channel] = [figure.querySelector(".frame"), figure.querySelector(".channel")];
  const shown = {
    images: layers.map((layer) => layer.src),
    captions: captions.map((caption) => caption.textContent),
  };
  const more = figure.querySelector(".more");
  const views = [shown, ...(more ? JSON.parse(more.textContent) : [])];  // frame by frame, each with its channels

  mountStage(figure, ...["width", "height"].map((side) => Number(layers[0].getAttribute(side))));

  function show() {
    const channels = channel ? channel.length : 1;
    const view = views[(frame ? frame.selectedIndex : 0) * channels + (channel ? channel.selectedIndex : 0)];
    layers.forEach((layer, k) => { layer.src = view.images[k]; });
    captions.forEach((caption, k) => { caption.textContent = view.captions[k]; });
  }
  for (const choice of [frame, channel]) if (choice) choice.addEventListener("change", show);
  show();  // a page that is loaded again keeps what was chosen
}

const count = document.querySelectorAll(".figure").length;
const images = count === 1 ? "1 image" : `${count} images`;
document.title = `nlridge: ${images}`;
document.querySelector(".count").textContent = `${images}, `;
