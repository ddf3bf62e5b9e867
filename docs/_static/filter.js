// Puts a field above each table of the class "filterable": it hides rows without the typed text.
// In tables of the class "keys", names may break behind a dot.
const breakBehindDots = (name) => {
  const parts = name.textContent.split(/(?<=[a-z]\.)/);
  name.replaceChildren(...parts.flatMap((part) => [part, document.createElement("wbr")]));
};

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.filterable")) {
    const field = document.createElement("input");
    field.type = "search";
    field.className = "filter";
    field.placeholder = "Filter rows";
    field.setAttribute("aria-label", "Filter the rows of this table");
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
    if (table.classList.contains("keys")) {
      table.querySelectorAll("td code .pre").forEach(breakBehindDots);
    }
    const place = table.closest(".table-wrapper") || table;
    place.before(field);
  }
});
