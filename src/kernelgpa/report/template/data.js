// The registration as the page's scripts see it: the JSON of #data with its arrays decoded.
// n clouds, m landmarks, d dimensions, k landmarks that are drawn for each cloud.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const is3D = data.dimension === 3;
const AXES = ["x", "y", "z"].slice(0, data.dimension);
const words = data.words; // for clouds, landmarks and the map, by what was registered
const ERROR_NAMES = { disagreement: "disagreement", sensor_error: words.sensor_error };

const decodedBytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

/** The numbers of a packed array: float32 times a common factor. */
function unpacked(array) {
  const values = Float64Array.from(new Float32Array(decodedBytes(array.data)));
  for (let i = 0; i < values.length; i++) values[i] *= array.factor;
  return values;
}

/** A column of a table; texts are not packed. */
const unpackedColumn = (one) => (one.kind === "text" ? one
  : { ...one, label: inWords(one.label), values: unpacked(one.values) });

/** A number of the JSON, which knows neither NaN nor infinity. */
const jsonNumber = (value) => (value === null ? NaN : value === "infinite" ? Infinity : value);
const range = (count) => Array.from({ length: count }, (_, i) => i);

const n = data.clouds.length;
const m = data.landmarks.length;
const mapPoints = unpacked(data.map); // (m, d)
const warpedPoints = unpacked(data.warped); // (n, k, d)
const drawnLandmarks = data.drawn || range(m); // (k,)
const hasPosition = (j) => !Number.isNaN(mapPoints[j * data.dimension]);
const mappedLandmarks = range(m).filter(hasPosition);
const columnsOf = {
  landmarks: data.landmark_table.map(unpackedColumn),
  clouds: data.cloud_table.map(unpackedColumn),
};

const hasColumn = (table, name) => columnsOf[table].some((one) => one.name === name);
const columnValues = (table, name) => columnsOf[table].find((one) => one.name === name).values;
const landmarkErrors = { disagreement: columnValues("landmarks", "disagreement"),
  sensor_error: columnValues("landmarks", "sensor_error") };

/** The coordinates of some rows of an array of points (rows, d), one list per axis. */
function coordinates(points, rows) {
  const d = data.dimension;
  return Object.fromEntries(AXES.map((axis, i) => [axis, rows.map((j) => points[j * d + i])]));
}
