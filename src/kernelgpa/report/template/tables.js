// Tables that can be sorted by their headers and filtered by name.

const MOST_TABLE_ROWS = 5000; // that a browser lists without delay
const MOST_NAME = 36; // characters of a name, which stays on one line
const CELL_TEXT = {
  count: formatCount, length: formatNumber, number: formatNumber, percentage: formatPercent,
  membership: (value) => (value ? "yes" : "no: mirrored"), text: (value) => value,
  flag: (value) => (value ? "yes" : "\u2013"),
};
const collator = new Intl.Collator("en", { numeric: true });

/** Compares two rows by their names (column 0) or the values of a column; missing values come last either way. */
function comparison(names, columns, { column, direction }) {
  const values = column === 0 ? names : columns[column - 1].values;
  return (a, b) => {
    if (typeof values[a] === "string") return direction * collator.compare(values[a], values[b]) || a - b;
    const [missingA, missingB] = [Number.isNaN(values[a]), Number.isNaN(values[b])];
    if (missingA || missingB) return missingA - missingB || a - b;
    return values[a] === values[b] ? a - b : direction * (values[a] < values[b] ? -1 : 1);
  };
}

function headerCell(column, onClick) {
  const button = createElement("button", { type: "button" }, column.label);
  const hasUnit = column.kind === "length" && data.unit;
  if (hasUnit) button.append(createElement("small", {}, ` (${truncated(data.unit, 12)})`));
  button.addEventListener("click", onClick);
  const printed = createElement("span", { class: "printed", "aria-hidden": "true" }, button.textContent);
  return createElement("th", { scope: "col", class: column.kind === "text" ? "text" : "number" }, button, printed);
}

function tableRow(i, names, columns, onSelect) {
  const shown = nameElement(truncated(names[i], MOST_NAME));
  const name = onSelect ? createElement("button", { type: "button", title: "show on the map" }, shown) : shown;
  if (shown.textContent !== names[i]) name.setAttribute("title", names[i]);
  if (onSelect) name.addEventListener("click", () => onSelect(i));
  const cells = columns.map((one) =>
    createElement("td", one.kind === "text" ? { class: "text" } : {}, CELL_TEXT[one.kind](one.values[i])));
  return createElement("tr", {}, createElement("td", {}, name), ...cells);
}

/** One row per name, with its values in each column. */
function addTable(id, noun, names, columns, { nameLabel, sortBy, direction, onSelect }) {
  const order = { column: sortBy, direction };
  const body = createElement("tbody");
  const status = createElement("span", { role: "status" });
  const filter = createElement("input", { type: "search", placeholder: "part of a name", autocomplete: "off" });
  const lowerCase = names.map((name) => name.toLowerCase());
  const headers = [{ label: nameLabel, kind: "name" }, ...columns].map((column, index) => headerCell(column, () => {
    const turned = order.column === index ? -order.direction : index === 0 ? 1 : -1;
    Object.assign(order, { column: index, direction: turned });
    fill();
  }));

  function fill() {
    const wanted = filter.value.trim().toLowerCase();
    const matching = range(names.length).filter((i) => lowerCase[i].includes(wanted));
    const listed = matching.sort(comparison(names, columns, order)).slice(0, MOST_TABLE_ROWS);
    body.replaceChildren(...listed.map((i) => tableRow(i, names, columns, onSelect)));
    status.textContent = (matching.length < names.length ? `${formatCount(matching.length)} of ` : "") +
      `${formatCount(names.length)} ${noun}` + (listed.length < matching.length
        ? `; the first ${formatCount(listed.length)} are listed, use the filter to find others` : "");
    headers.forEach((header, index) => {
      const sorted = order.direction > 0 ? "ascending" : "descending";
      header.setAttribute("aria-sort", index === order.column ? sorted : "none");
    });
  }

  filter.addEventListener("input", fill);
  const box = createElement("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${noun}` },
    createElement("table", {}, createElement("thead", {}, createElement("tr", {}, ...headers)), body));
  byId(id).append(createElement("div", { class: "tools" }, createElement("label", {}, "Filter ", filter), status), box);
  fill();
}

function addTables() {
  const sensorError = (columns) => 1 + columns.findIndex((one) => one.name === "sensor_error");
  addTable("landmarkTable", words.landmarks, data.landmarks, columnsOf.landmarks,
    { nameLabel: words.landmark, sortBy: sensorError(columnsOf.landmarks), direction: -1,
      onSelect: highlightLandmark });
  addTable("cloudTable", words.clouds, data.clouds, columnsOf.clouds,
    { nameLabel: words.cloud, sortBy: sensorError(columnsOf.clouds), direction: -1, onSelect: (cloud) => {
      selectCloud(cloud);
      byId("map").scrollIntoView();
    } });
  appendParagraphs(byId("landmarkTable"), [inWords([
    "Disagreement and sensor-frame error are root mean squares over the observations.",
    hasColumn("landmarks", "left_out_residual") && " The left-out residual is the median distance between an " +
      "observation and its prediction from the rest of the data, if it were left out of its cloud.",
    data.rejected !== null && " The remaining weight is the mean, over observations, of the weight after robust " +
      "reweighting in percent of the weight given.",
    " A dash means that there is nothing to compare.",
  ].filter(Boolean).join(""))], { class: "caption" });
}
