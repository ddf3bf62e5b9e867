// Fills all fields with each text in turn, and sends all forms. Returns the names of the fields.
async (texts) => {
  const underWay = new Set();
  const asked = [];
  const real = window.fetch;
  window.fetch = (url, how) => {
    if (url.includes("/live")) return real(url, how);
    asked.push(url);
    const answer = real(url, how);
    const end = () => underWay.delete(answer);
    underWay.add(answer);
    answer.then(end, end);
    return answer;
  };
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const until = async (isSo, what) => {
    const deadline = performance.now() + 20_000;
    while (!isSo()) {
      if (performance.now() > deadline) throw new Error(`${what} at ${location.hash}`);
      await frame();
    }
  };
  const all = (what) => [...document.querySelectorAll(`main ${what}`)];
  const set = (field, value) => {
    const kind = Object.getPrototypeOf(field);
    Object.getOwnPropertyDescriptor(kind, "value").set.call(field, value);
    for (const name of ["input", "change"]) {
      field.dispatchEvent(new Event(name, { bubbles: true }));
    }
  };
  const instead = { number: "1", "datetime-local": "2026-01-01T00:00" };
  const filled = new Set();
  for (const [turn, text] of texts.entries()) {
    for (const closed of all("details:not([open])")) closed.open = true;
    // Each kind of fault, and each target of a move, has other fields.
    for (const choice of all("select")) {
      set(choice, choice.options[turn % choice.options.length].value);
    }
    await frame();
    await frame();
    const searches = [];
    for (const field of all("input, textarea")) {
      if (field.type === "checkbox") continue;
      set(field, text);
      filled.add(field.name || field.parentElement.textContent.trim());
      if (field.type in instead) set(field, instead[field.type]);
      if (field.type === "search") searches.push(field.value);
    }
    for (const search of searches) {
      const words = `${new URLSearchParams({ search })}`;
      await until(() => asked.some((url) => url.includes(words)), `no search for ${words}`);
    }
    for (const form of all("form")) {
      // As the key Enter does: a form whose button is disabled is not sent, nor one that was drawn
      // again meanwhile and is empty.
      if (form.querySelector("button:disabled") || !form.checkValidity()) continue;
      form.requestSubmit();
      await until(() => all("button.main:disabled").length === 0, "a command has no end");
    }
    await until(() => underWay.size === 0, "no answer");
  }
  window.fetch = real;
  return [...filled];
}
