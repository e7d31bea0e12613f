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
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = (one, other) => {
        const [a, b] = [value(one), value(other)];
        const difference = Number(a) - Number(b);
        return Number.isNaN(difference) ? a.localeCompare(b, "en", { numeric: true }) : difference;
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
