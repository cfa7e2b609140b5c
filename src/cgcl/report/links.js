// Sort and search the table of suggested links. Without this script the table reads as it is.
"use strict";
{
  const table = document.getElementById("suggested-links");
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const box = document.getElementById("search");
  const status = document.getElementById("search-status");
  const byName = new Intl.Collator(undefined, { numeric: true }).compare;

  // Names are compared as text, numbers by the exact value beside the rounded one.
  const text = (row, column) => row.cells[column].textContent;
  const number = (row, column) => {
    const value = row.cells[column].dataset.value;
    return value === undefined ? null : Number(value);
  };

  const compare = (a, b, column, isText, sign) => {
    if (isText) return sign * byName(text(a, column), text(b, column));
    const [x, y] = [number(a, column), number(b, column)];
    // What is missing comes last in both directions.
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  };

  const sort = (column) => {
    const head = heads[column];
    const before = head.getAttribute("aria-sort");
    const other = before === "ascending" ? "descending" : "ascending";
    const order = before ? other : head.dataset.first;
    for (const cell of heads) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const isText = head.dataset.kind === "text";
    // From the order of the file each time, so that equal rows keep it.
    const sorted = [...rows].sort((a, b) => compare(a, b, column, isText, sign));
    table.tBodies[0].append(...sorted);
  };

  const plain = (string) => string.normalize("NFKC").toLocaleLowerCase();
  // Names and reasons, not numbers; the title holds what was cut from a long name.
  const words = (row) =>
    [...row.cells]
      .filter((_, column) => heads[column].dataset.kind === "text")
      .flatMap((cell) => [cell.textContent, cell.querySelector("[title]")?.title ?? ""]);
  const haystacks = rows.map((row) => plain(words(row).join(" ")));

  const filter = () => {
    const wanted = plain(box.value).split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !wanted.every((word) => haystacks[place].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    status.textContent = `${shown} of ${rows.length} shown`;
  };

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(column));
    head.append(button);
  });
  heads[0].setAttribute("aria-sort", "ascending");
  box.addEventListener("input", filter);
  box.closest("[hidden]").hidden = false;
  filter();
}
