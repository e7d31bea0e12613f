"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = (one, other) => {
        const [a, b] = [text(one), text(other)];
        const [x, y] = [parseFloat(a), parseFloat(b)]; // of "1.25x" or "7.5%" too; a cell without a number comes first
        if (Number.isNaN(x) && Number.isNaN(y)) return a.localeCompare(b, "en", { numeric: true });
        return Number.isNaN(x) || Number.isNaN(y) ? Number.isNaN(y) - Number.isNaN(x) : x - y;
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((one, other) => (down ? order(other, one) : order(one, other))));
    });
  });
}
const closed = [];
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details:not([open])")) {
    one.open = true;
    closed.push(one);
  }
});
addEventListener("afterprint", () => {
  for (const one of closed.splice(0)) one.open = false;
});
