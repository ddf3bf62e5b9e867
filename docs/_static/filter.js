// Puts a field above each table of the class "filterable": it hides rows without the typed text.
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
    const place = table.closest(".table-wrapper") || table;
    place.before(field);
  }
});
