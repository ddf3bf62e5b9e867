// A dot that rests in a stage, below nothing else: the middle of it.
() => new Promise((resolve) => {
  const places = () => [...document.querySelectorAll("svg.plane circle.dot")].map((dot) => {
    const { x, y, width, height } = dot.getBoundingClientRect();
    return { dot, x: x + width / 2, y: y + height / 2 };
  });
  requestAnimationFrame(() => {
    const before = places();
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const rests = (now) => before.some((one) =>
        one.dot === now.dot && one.x === now.x && one.y === now.y &&
        document.elementFromPoint(now.x, now.y) === now.dot);
      const found = places().find(rests);
      resolve(found ? [found.x, found.y] : null);
    }));
  });
})
