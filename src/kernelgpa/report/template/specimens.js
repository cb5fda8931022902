// The size and the shape of each cloud: centroid size against Procrustes distance, coloured by an attribute.

const GROUP_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7f7f7f"];
const GROUP_SYMBOLS = ["circle", "square", "diamond", "cross", "triangle-up", "x", "star"];
const MOST_GROUPS = 30;
const attributeColumns = columnsOf.clouds.filter((one) => one.kind === "text");

/** The numbers of an attribute; null if one of its values is no number, or too few differ. */
function attributeNumbers(values) {
  const numbers = values.map((value) => (value === "" ? NaN : Number(value)));
  const numeric = values.every((value, i) => value === "" || Number.isFinite(numbers[i]));
  return numeric && new Set(values).size > GROUP_COLOURS.length ? numbers : null;
}

function specimenTrace(members, name, more) {
  const [sizes, distances] = ["centroid_size", "procrustes_distance"].map((column) => columnValues("clouds", column));
  const text = (t) => `${plotlyText(data.clouds[t])}<br>centroid size ${plotlyText(formatLength(sizes[t]))}<br>` +
    `Procrustes distance ${formatNumber(distances[t])}` + attributeColumns.map((one) =>
      `<br>${plotlyText(one.label, 24)}: ${plotlyText(one.values[t] || "\u2013", 24)}`).join("");
  return { type: "scatter", mode: "markers", x: members.map((t) => sizes[t]), y: members.map((t) => distances[t]),
    hoverinfo: "text", hovertext: members.map(text), name: plotlyText(name, 24), ...more };
}

function specimenTraces(theme) {
  const column = attributeColumns.find((one) => one.name === byId("specimenColour").value);
  const plain = { marker: { size: 9, color: theme.accent } };
  if (!column) return [specimenTrace(range(n), inWords("clouds"), plain)];
  const numbers = attributeNumbers(column.values);
  if (numbers) {
    return [specimenTrace(range(n), column.label, { marker: { size: 9, colorscale: theme.scale,
      color: numbers.map((value) => (Number.isNaN(value) ? theme.soft : value)),
      colorbar: colourBar(theme, plotlyText(column.label, 24)) } })];
  }
  const groups = [...new Set(column.values)].sort(collator.compare).slice(0, MOST_GROUPS);
  return groups.map((group, i) => specimenTrace(range(n).filter((t) => column.values[t] === group), group || "unknown",
    { marker: { size: 9, color: GROUP_COLOURS[i % GROUP_COLOURS.length],
      symbol: GROUP_SYMBOLS[Math.floor(i / GROUP_COLOURS.length) % GROUP_SYMBOLS.length] } }));
}

function specimensFigure(theme) {
  const traces = specimenTraces(theme);
  const limit = data.outlier_threshold;
  return { traces, layout: plotLayout(theme, {
    showlegend: traces.length > 1, legend: { orientation: "h", y: -0.25, font: { color: theme.soft } },
    xaxis: axis2D(theme, plotlyText(withUnit("centroid size"))),
    yaxis: axis2D(theme, "Procrustes distance", { rangemode: "tozero" }),
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: limit, y1: limit,
      line: { color: theme.soft, width: 1, dash: "dash" } }],
  }) };
}

function addSpecimens() {
  const select = byId("specimenColour");
  select.append(createElement("option", { value: "" }, "nothing"),
    ...attributeColumns.map((one) => createElement("option", { value: one.name }, truncated(one.label, 40))));
  select.value = attributeColumns.length ? attributeColumns[0].name : "";
  byId("specimenControls").hidden = !attributeColumns.length;
  const plot = addPlot("specimensPlot", specimensFigure, "Centroid size and Procrustes distance");
  select.addEventListener("change", () => {
    resetPlot(plot); // groups and numbers have different traces
    drawPlot(plot);
  });
  const outliers = range(n).filter((t) => columnValues("clouds", "outlier")[t]);
  byId("specimensCaption").replaceChildren(inWords("The partial Procrustes distance of each cloud from the map, both " +
    "at unit centroid size. Clouds above the dashed line are outliers: the upper quartile plus 1.5 times the " +
    "interquartile range. "), outliers.length ? inWords(`${countOf(outliers.length, "cloud is", "clouds are")}: `)
    : inWords("No cloud is."), nameElement(outliers.map((t) => data.clouds[t]).slice(0, 20).join(", ")));
}
