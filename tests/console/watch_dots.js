// Keeps how long each dot was on its way, in ms.
() => {
  const group = document.querySelector("svg.plane > g:last-of-type");
  const begun = new Map();
  window.lifetimes = [];
  new MutationObserver((changes) => {
    for (const { addedNodes, removedNodes } of changes) {
      for (const dot of addedNodes) begun.set(dot, performance.now());
      for (const dot of removedNodes) {
        if (begun.has(dot)) lifetimes.push(performance.now() - begun.get(dot));
      }
    }
  }).observe(group, { childList: true });
}
