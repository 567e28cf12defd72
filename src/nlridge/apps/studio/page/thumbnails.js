// Small images of files: only of those that are in sight, and one at a time, so that tiles of the image need not wait.

export function makeThumbnails() {
  const addresses = new Map();  // of images that are not loaded yet
  const inSight = new Set();
  let loading = false;

  async function loadNext() {
    const [picture] = inSight;
    if (loading || !picture) return;
    loading = true;
    inSight.delete(picture);
    watcher.unobserve(picture);
    try {
      const response = await fetch(addresses.get(picture));
      if (response.ok && response.status !== 204) picture.src = URL.createObjectURL(await response.blob());
    } catch { /* no server: the page says so elsewhere */ }
    addresses.delete(picture);
    loading = false;
    loadNext();
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && addresses.has(target)) inSight.add(target);
      else inSight.delete(target);
    }
    loadNext();
  });

  return {
    // Loads an image once it is in sight.
    add(picture, address) {
      addresses.set(picture, address);
      watcher.observe(picture);
    },
  };
}
